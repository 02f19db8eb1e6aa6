// SPDX-License-Identifier: BSL-1.0

// The workloads of lagom-bench on goroutines: yield, pipe, messaging, spawn. Prints one line of JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	senders   = 20
	receivers = 20
	capacity  = 64
)

// message is as long as lagom-bench's and checked in the same way.
type message struct {
	receiver, sender, sequence uint32
	filling                    [84]byte
	seal                       uint32
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func seal(receiver, sender, sequence uint32) uint32 {
	return receiver ^ sender<<24 ^ ^sequence
}

// cpuTime is what the whole process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// span is the time from its beginning: on the wall, and of CPUs.
type span struct {
	start time.Time
	wall  time.Duration
	cpu   time.Duration
}

func begin() span {
	return span{start: time.Now(), cpu: cpuTime()}
}

func (s span) end() span {
	return span{wall: time.Since(s.start), cpu: cpuTime() - s.cpu}
}

// team runs body(0..count-1) on goroutines that start together, and times them from "go" until the last is done.
func team(count int, body func(index int)) span {
	var ready, done sync.WaitGroup
	gate := make(chan struct{})
	ready.Add(count)
	done.Add(count)
	for index := 0; index < count; index++ {
		go func(index int) {
			ready.Done()
			<-gate
			body(index)
			done.Done()
		}(index)
	}
	ready.Wait()
	took := begin()
	close(gate)
	done.Wait()
	return took.end()
}

func yield(fibers, loops int) (span, int) {
	each := (loops + fibers - 1) / fibers
	took := team(fibers, func(int) {
		for turn := 0; turn < each; turn++ {
			runtime.Gosched()
		}
	})
	return took, each * fibers
}

func pipe(loops int) (span, int) {
	there, back := make(chan int32, 1), make(chan int32, 1)
	took := team(2, func(index int) {
		for round := 0; round < loops; round++ {
			token := int32(round & 0x7fffffff)
			if index == 0 {
				there <- token
				if <-back != ^token {
					fail("the wrong token came back")
				}
			} else {
				if <-there != token {
					fail("the wrong token arrived")
				}
				back <- ^token
			}
		}
	})
	return took, loops
}

func receive(inbox chan message, receiver uint32, loops int) {
	var next [senders]uint32
	for count := 0; count < senders*loops; count++ {
		m := <-inbox
		if m.receiver != receiver || m.sender >= senders || m.seal != seal(m.receiver, m.sender, m.sequence) ||
			m.sequence != next[m.sender] {
			fail("receiver %d got a wrong message", receiver)
		}
		next[m.sender]++
	}
}

func messaging(groups, loops int) (span, int) {
	inboxes := make([]chan message, groups*receivers)
	for receiver := range inboxes {
		inboxes[receiver] = make(chan message, capacity)
	}
	took := team(groups*(senders+receivers), func(index int) {
		group, place := index/(senders+receivers), index%(senders+receivers)
		if place < receivers {
			receiver := group*receivers + place
			receive(inboxes[receiver], uint32(receiver), loops)
			return
		}
		sender := uint32(place - receivers)
		for sequence := uint32(0); sequence < uint32(loops); sequence++ {
			for to := group * receivers; to < (group+1)*receivers; to++ {
				inboxes[to] <- message{receiver: uint32(to), sender: sender, sequence: sequence,
					seal: seal(uint32(to), sender, sequence)}
			}
		}
	})
	return took, groups * senders * receivers * loops
}

func spawn(loops, batch int) (span, int) {
	marks := make([]uint64, batch)
	expected, sum := uint64(0), uint64(0)
	began := begin()
	for left := loops; left > 0; left -= batch {
		count := batch
		if left < batch {
			count = left
		}
		var done sync.WaitGroup
		done.Add(count)
		for place := 0; place < count; place++ {
			go func(mark *uint64, value uint64) {
				*mark += value
				done.Done()
			}(&marks[place], uint64(place+1))
		}
		done.Wait()
		expected += uint64(count) * uint64(count+1) / 2
	}
	took := began.end()
	for _, mark := range marks {
		sum += mark
	}
	if sum != expected {
		fail("not every goroutine ran once")
	}
	return took, loops
}

func main() {
	if len(os.Args) < 2 {
		fail("usage: peer-go yield|pipe|messaging|spawn [--workers N] [--fibers N] [--loops N] [--groups N]")
	}
	options := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	workers := options.Int("workers", 1, "GOMAXPROCS")
	fibers := options.Int("fibers", 2, "yield: goroutines; spawn: alive at once")
	loops := options.Int("loops", 100, "as in lagom-bench")
	groups := options.Int("groups", 10, "messaging: groups")
	_ = options.Parse(os.Args[2:])
	runtime.GOMAXPROCS(*workers)
	var took span
	var ops int
	switch os.Args[1] {
	case "yield":
		took, ops = yield(*fibers, *loops)
	case "pipe":
		took, ops = pipe(*loops)
	case "messaging":
		took, ops = messaging(*groups, *loops)
	case "spawn":
		took, ops = spawn(*loops, *fibers)
	default:
		fail("there is no workload %q", os.Args[1])
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"ops": ops, "seconds": took.wall.Seconds(),
		"cpu_seconds": took.cpu.Seconds(), "ns_per_op": float64(took.wall.Nanoseconds()) / float64(ops)})
}
