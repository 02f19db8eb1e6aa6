// SPDX-License-Identifier: BSL-1.0
// The park protocol (runtime/fiber/park.hpp, park_word.hpp; worker/park.cpp, switch.cpp) under spin: a parker that waits
// WAITS times for tokens of a semaphore; the first wait has a timer, the last may be ended by a stop. Every interleaving, but
// each access in one order for all: what the memory may reorder is Relacy's part (park_model.cpp).
//
// THREAD  the parker is a plain thread with its futex instead of a fiber between two workers
// TOKENS  that are given; STOP: whether a stop is asked for
// FAULT   see the names below: each must be found

#ifndef THREAD
#define THREAD 0
#endif
#ifndef TOKENS
#define TOKENS 3
#endif
#ifndef STOP
#define STOP 0
#endif
#ifndef FAULT
#define FAULT 0
#endif
#define NO_EPOCH 1         /* a ticket fits any wait */
#define NO_SECOND_LOOK 2   /* settle_parked() does not look at the stop flag */
#define EARLY_SETTLE 3     /* parked is published before the stack is left */
#define TORN_USE 4         /* two may win the same ticket */
#define BLIND_SETTLE 5     /* parked overwrites what came in between */
#define WORD_BEFORE_SIGNAL 6  /* park_thread() looks at the signal too late */

#define WAITS 3
#define LAST 2
#define NONE 0             /* no epoch */

mtype = { quiet, armed, parked, used, stale };
mtype = { notified, expired, stopped };

/* The word. */
byte epoch = NONE;
mtype state = quiet;
mtype why = notified;
bool may_stop = false;

bool stop_flag = false;
byte timer = NONE;         /* ticket of the first wait */

/* The semaphore and its lock. */
bool locked = false;
byte tokens = 0;
bool linked = false;
byte waiter = NONE;

/* The parker's own. */
bool on_stack = false;
bool in_wait = false;
byte stage = 0;
byte got = 0, gave_up = 0;
bool ended = false;

byte wins[WAITS + 1];      /* per epoch: how many have used its ticket */

chan run_queue = [2] of { bit };
byte rings = 0;           /* a thread's signal */
bool asleep = false;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* park_word::use(): one compare-and-exchange. */
inline use(e, c, found) {
#if FAULT == TORN_USE
  if
  :: epoch == e && (state == armed || state == parked) -> found = state; state = used; why = c; wins[e]++
  :: else -> found = stale
  fi;
#else
  atomic {
    if
#if FAULT == NO_EPOCH
    :: state == armed || state == parked ->
       found = state; state = used; why = c; wins[epoch]++
#else
    :: epoch == e && (state == armed || state == parked) ->
       found = state; state = used; why = c; wins[e]++;
       assert(wins[e] == 1)  /* stop wins or wake wins, once */
#endif
    :: else -> found = stale
    fi
  };
#endif
}

inline unpark(e, c, found) {
  use(e, c, found);
  if
  :: found == stale -> skip
  :: else ->
#if THREAD
     rings++;
     asleep = false     /* futex_wake */
#else
     if
     :: found == parked ->
        assert(len(run_queue) == 0);  /* on one queue at most */
        run_queue!1
     :: else -> skip
     fi
#endif
  fi;
  found = stale
}

inline end_wait(cause) {
  assert(cause != expired || stage == 0);     /* a late timer ends no other wait */
  assert(cause != stopped || stage == LAST);
  lock();
  assert(cause != notified || !linked);
  if
  :: linked -> linked = false; gave_up++      /* really expired or stopped */
  :: else -> got++                            /* a waker has given it the token, whatever woke it */
  fi;
  unlock();
  stage++
}

/* One acquire() of the semaphore, up to the point where it must park. */
inline begin_wait(cause) {
  lock();
  if
  :: tokens > 0 -> tokens--; got++; unlock(); if :: stage == 0 -> timer = WAITS + 1 :: else -> skip fi; stage++
  :: else ->
     assert(state == quiet);
     epoch++;
     state = armed;
     waiter = epoch;
     linked = true;
     unlock();
     if
     :: stage == 0 -> timer = epoch; in_wait = true
     :: stage == LAST && stop_flag ->
        atomic { if :: state == armed -> cause = stopped :: else -> assert(state == used); cause = why fi; state = quiet };
        end_wait(cause)
     :: else -> in_wait = true
     fi
  fi
}

#if THREAD
/* park_thread() */
active proctype thread() {
  mtype cause, found = stale;
  byte seen;
  do
  :: stage == WAITS -> break
  :: stage < WAITS && !in_wait -> begin_wait(cause)
  :: in_wait ->
     do
#if FAULT == WORD_BEFORE_SIGNAL
     :: atomic { state == used -> cause = why; state = quiet }; break
     :: atomic { state != used -> skip }; seen = rings;
#else
     :: seen = rings;
        if
        :: atomic { state == used -> cause = why; state = quiet }; break
        :: atomic { state != used -> skip }
        fi;
#endif
        atomic { asleep = (rings == seen) };
        if
        :: !asleep -> skip
        :: stage == 0 -> asleep = false; unpark(epoch, expired, found)
        fi
     od;
     in_wait = false;
     end_wait(cause)
  od;
  ended = true
}
#else
active [2] proctype worker() {
  mtype cause, found = stale;
  byte mine;
  bool waits, stoppable, settled;
  do
  :: ended -> break
  :: atomic { nempty(run_queue) -> run_queue?_ };
     assert(!on_stack);   /* run by one worker at a time, after the other has left the stack */
     on_stack = true;
     if
     :: in_wait -> in_wait = false; assert(state == used); cause = why; state = quiet; end_wait(cause)
     :: else -> skip
     fi;
     do
     :: stage == WAITS || in_wait -> break
     :: else -> begin_wait(cause)
     od;
     waits = in_wait;
     mine = epoch;
     stoppable = stage == LAST;
#if FAULT != EARLY_SETTLE
     on_stack = false;
#endif
     if
     :: waits ->
        /* settle_parked() */
        atomic {
#if FAULT == BLIND_SETTLE
          state = parked; may_stop = stoppable; settled = true
#else
          if
          :: state == armed -> state = parked; may_stop = stoppable; settled = true
          :: else -> assert(state == used); settled = false
          fi
#endif
        };
#if FAULT == EARLY_SETTLE
        on_stack = false;
#endif
        if
#if FAULT != NO_SECOND_LOOK
        :: settled && stoppable && stop_flag -> unpark(mine, stopped, found)
        :: settled && !(stoppable && stop_flag) -> skip
#else
        :: settled -> skip
#endif
        :: !settled -> run_queue!1
        fi
     :: else -> ended = true
     fi
  od
}
#endif

active proctype waker() {
  mtype found = stale;
  byte given = 0, whose;
  do
  :: given == TOKENS -> break
  :: else ->
     given++;
     lock();
     if
     :: linked -> linked = false; whose = waiter; unlock(); unpark(whose, notified, found)
     :: else -> tokens++; unlock()
     fi
  od
}

/* As late as it likes. */
active proctype late_timer() {
  mtype found = stale;
  timer != NONE;
  if
  :: timer <= WAITS -> unpark(timer, expired, found)
  :: else -> skip
  fi
}

#if STOP
active proctype stopper() {
  mtype found = stale;
  byte e = NONE;
  stop_flag = true;
  /* park_word::parked_until_stop() */
  atomic { if :: state == parked && may_stop -> e = epoch :: else -> skip fi };
  if
  :: e != NONE -> unpark(e, stopped, found)
  :: else -> skip
  fi
}
#endif

init {
#if !THREAD
  run_queue!1;
#endif
  ended;
  assert(got + gave_up == WAITS);
  assert(gave_up <= 1 + STOP);
}

/* A lost wake-up shows as an end state that is none; and nothing turns in circles. */
ltl gets_to_its_end { <> ended }
