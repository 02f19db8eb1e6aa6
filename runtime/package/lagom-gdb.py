# SPDX-License-Identifier: BSL-1.0
"""gdb commands for lagom's fibers: live processes and cores. See docs/debugging.md.

Calls no function of the process and writes nothing to it: a suspended fiber is shown by an unwinder that lets the selected
thread's innermost frame appear to be called from where the fiber was left.
"""

import struct
import time

import gdb
import gdb.unwinder

TABLE = "lagom::v0::detail::debugging"
HEAD = "<8sIIQQQ"
NUMBERS = (
    "state_count reason_count slab_blocks slab_blocks_at slab_next block_size block_id block_state block_reason block_since"
    " block_core block_worker block_stack_pointer block_stack_top block_attributes attributes_name worker_index stack_low"
    " saved_size saved_pc saved_fp"
).split()
# What a suspended fiber has saved: register, bytes from where its program counter is saved.
SAVED = {
    "i386:x86-64": list(zip("r12 r13 r14 r15 rbx rbp rip".split(), range(-48, 8, 8))),
    "aarch64": [("x%d" % (19 + i), 8 * i - 0x60) for i in range(11)] + [("x30", -8), ("pc", 0)],
}
STACK_POINTER = {"i386:x86-64": "rsp", "aarch64": "sp"}
FRAMES_MAX = 256
RED_ZONE = 128
PAGE = 4096


def read(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def word(address):
    return struct.unpack("<Q", read(address, 8))[0]


def text(address, size=None):
    if not address:
        return ""
    if size is not None:
        return read(address, min(size, 256)).decode(errors="replace")
    return gdb.Value(address).cast(gdb.lookup_type("char").pointer()).string(errors="replace", length=-1)


class Table:
    """lagom's description of itself in the process."""

    def __init__(self):
        try:
            at = int(gdb.parse_and_eval("(unsigned long)&'%s'" % TABLE))
            magic, version, fields, self.slabs, states, reasons = struct.unpack(HEAD, read(at, struct.calcsize(HEAD)))
        except gdb.error as error:
            raise gdb.GdbError("no lagom in this process, or its symbols are stripped (%s)" % error)
        if magic.rstrip(b"\0") != b"lagom":
            raise gdb.GdbError("no lagom runtime was made yet")
        if version != 1 or fields < len(NUMBERS):
            raise gdb.GdbError("this script does not fit the lagom in the process: use the one installed with it")
        numbers = struct.unpack("<%dI" % len(NUMBERS), read(at + struct.calcsize(HEAD), 4 * len(NUMBERS)))
        for name, number in zip(NUMBERS, numbers):
            setattr(self, name, number)
        self.states = [text(word(states + 8 * i)) for i in range(self.state_count)]
        self.reasons = [text(word(reasons + 8 * i)) for i in range(self.reason_count)]


class Fiber:
    def __init__(self, table, block, content):
        def number(offset, form):
            return struct.unpack_from("<" + form, content, offset)[0]

        self.id = number(table.block_id, "Q")
        state = number(table.block_state, "B")
        self.state = table.states[state] if state < len(table.states) else ""
        reason = number(table.block_reason, "B")
        self.reason = table.reasons[reason] if self.state == "parked" and reason < len(table.reasons) else ""
        self.since = number(table.block_since, "q")
        self.is_alive = number(table.block_core, "Q") != 0 and self.state not in ("", "exited")
        self.stack_pointer = number(table.block_stack_pointer, "Q")
        self.stack_top = number(table.block_stack_top, "Q")
        self.worker, self.name = "-", ""
        if self.is_alive:
            home, attributes = number(table.block_worker, "Q"), number(table.block_attributes, "Q")
            if home:
                self.worker = str(struct.unpack("<I", read(home + table.worker_index, 4))[0])
            if attributes:
                characters, length = struct.unpack("<QQ", read(attributes + table.attributes_name, 16))
                self.name = text(characters, length)

    @property
    def is_running(self):
        return self.state == "running"

    def heading(self, clock):
        words = ["fiber %d" % self.id]
        if self.name:
            words.append("'%s'" % self.name)
        words.append(self.state + (" (%s)" % self.reason if self.reason else ""))
        words.append("for " + clock.age(self))
        words.append("worker " + self.worker)
        return ", ".join(words)


class Clock:
    """How long ago: by this machine's clock for a live process; a core only knows its own last event."""

    def __init__(self, fibers):
        connection = gdb.selected_inferior().connection
        self.is_live = connection is not None and connection.type == "native"
        self.now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) if self.is_live else max([f.since for f in fibers] or [0])

    def age(self, fiber):
        return "%s%.3f s" % ("" if self.is_live else ">= ", max(0, self.now - fiber.since) / 1e9)


def all_fibers(table=None):
    table = table or Table()
    found = []
    slab = word(table.slabs)
    while slab:
        content = read(slab + table.slab_blocks_at, table.slab_blocks * table.block_size)
        for i in range(table.slab_blocks):
            at = i * table.block_size
            fiber = Fiber(table, slab + table.slab_blocks_at + at, content[at : at + table.block_size])
            if fiber.is_alive:
                found.append(fiber)
        slab = word(slab + table.slab_next)
    return sorted(found, key=lambda fiber: fiber.id)


def fiber_by_id(text_of_id):
    try:
        wanted = int(text_of_id)
    except ValueError:
        raise gdb.GdbError("the id of a fiber is expected, as 'lagom fibers' lists it")
    for fiber in all_fibers():
        if fiber.id == wanted:
            return fiber
    raise gdb.GdbError("no fiber %d" % wanted)


# ---- Looking at a suspended fiber


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class FiberUnwinder(gdb.unwinder.Unwinder):
    """While a fiber is shown, the caller of one thread's innermost frame is what the fiber will go on with."""

    def __init__(self):
        super().__init__("lagom")
        self.shown = None  # the thread's sp and pc, the fiber's registers, an address below its frames

    def show(self, fiber):
        self.clear()
        if word(fiber.stack_pointer + Table().saved_pc) == 0:
            raise gdb.GdbError("its stack is not in the core: gdb's gcore stops at guard pages, 'lagom gcore' does not")
        frame = gdb.newest_frame()
        name = frame.architecture().name()
        if name not in SAVED:
            raise gdb.GdbError("lagom's commands do not know suspended fibers of %s" % name)
        table = Table()
        values = {register: word(fiber.stack_pointer + table.saved_pc + offset) for register, offset in SAVED[name]}
        values[STACK_POINTER[name]] = fiber.stack_pointer + table.saved_size
        self.shown = (int(frame.read_register("sp")), int(frame.pc()), values, fiber.stack_pointer)
        gdb.invalidate_cached_frames()

    def clear(self):
        if self.shown:
            self.shown = None
            gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if not self.shown:
            return None
        sp, pc, values, below = self.shown
        if int(pending.read_register("sp")) != sp or int(pending.read_register("pc")) != pc:
            return None
        # An id below the fiber's own frames: gdb wants callers further up.
        info = pending.create_unwind_info(FrameId(gdb.Value(below), gdb.Value(pc)))
        for register, value in values.items():
            info.add_saved_register(register, gdb.Value(value).cast(pending.read_register(register).type))
        return info


unwinder = FiberUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
gdb.events.cont.connect(lambda event: unwinder.clear())


def thread_of(fiber):
    """The thread that runs the fiber: its stack pointer is on the fiber's stack."""
    low = word(fiber.stack_top + Table().stack_low)
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        if low <= int(gdb.newest_frame().read_register("sp")) <= fiber.stack_top:
            return thread
    return None


def first_frame_of_fiber():
    """What the unwinder has put below the thread's innermost frame, functions inlined into that left out."""
    frame = gdb.newest_frame()
    while frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    return frame.older()


def frames_from(frame):
    while frame is not None and frame.is_valid() and frame.pc() != 0:
        yield frame
        try:
            frame = frame.older()
        except gdb.error:
            return


def print_frames(first):
    for number, frame in enumerate(frames_from(first)):
        if number == FRAMES_MAX:
            print("  ...")
            return
        place = frame.find_sal()
        where = ""
        if place.symtab:
            where = " at %s:%d" % (place.symtab.filename, place.line)
        else:
            library = gdb.solib_name(frame.pc())
            where = " from %s" % library if library else ""
        print("  #%-2d 0x%016x in %s ()%s" % (number, frame.pc(), frame.name() or "??", where))


def print_backtrace(fiber):
    selected = gdb.selected_thread()
    if fiber.is_running:
        if thread_of(fiber) is None:
            print("  its thread is not to be found")
        else:
            print_frames(gdb.newest_frame())
        selected.switch()
        return
    unwinder.show(fiber)
    try:
        print_frames(first_frame_of_fiber())
    finally:
        unwinder.clear()


# ---- Commands


class Lagom(gdb.Command):
    """The fibers of lagom runtimes: lagom fibers, lagom fiber [ID], lagom bt [ID | all]."""

    def __init__(self):
        super().__init__("lagom", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class Fibers(gdb.Command):
    """Lists the fibers: id, state, what a parked one waits for, for how long, last worker, name.
In a core the time is up to the last change of any fiber."""

    def __init__(self):
        super().__init__("lagom fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        fibers = all_fibers()
        clock = Clock(fibers)
        print("%8s  %-9s %-20s %12s  %-6s %s" % ("id", "state", "waits for", "for", "worker", "name"))
        for f in fibers:
            print("%8d  %-9s %-20s %12s  %-6s %s" % (f.id, f.state, f.reason, clock.age(f), f.worker, f.name))


class SwitchTo(gdb.Command):
    """lagom fiber ID: shows that fiber; bt, up, down, info locals then work in its frames. Of a suspended one, the
innermost frame is still the thread's, and the fiber's are its callers. Without an ID, or when the process goes on: back
to the thread."""

    def __init__(self):
        super().__init__("lagom fiber", gdb.COMMAND_STACK)

    came_from = None  # the thread that was selected before the first fiber was

    def invoke(self, argument, from_tty):
        unwinder.clear()
        if not argument:
            if self.came_from is not None and self.came_from.is_valid():
                self.came_from.switch()
            self.came_from = None
            return gdb.execute("frame 0")
        fiber = fiber_by_id(argument)
        if self.came_from is None:
            self.came_from = gdb.selected_thread()
        print(fiber.heading(Clock(all_fibers())))
        if fiber.is_running:
            if thread_of(fiber) is None:
                raise gdb.GdbError("the thread that runs it is not to be found")
            return gdb.execute("frame 0")
        unwinder.show(fiber)
        first_frame_of_fiber().select()
        gdb.execute("frame")


class Backtrace(gdb.Command):
    """lagom bt ID: the stack of one fiber. lagom bt all: the stacks of all."""

    def __init__(self):
        super().__init__("lagom bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        fibers = all_fibers() if argument == "all" else [fiber_by_id(argument)]
        clock = Clock(all_fibers())
        for fiber in fibers:
            print(fiber.heading(clock))
            try:
                print_backtrace(fiber)
            except (gdb.error, gdb.GdbError) as error:
                print("  %s" % error)


class Core(gdb.Command):
    """lagom gcore FILE: as gdb's own gcore, with the stacks of the fibers. gcore gives a region of memory up at the first
page that cannot be read, and lagom's guard pages lie within regions (Linux 6.13 and later). The kernel's cores are whole."""

    def __init__(self):
        super().__init__("lagom gcore", gdb.COMMAND_DATA, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError("the name of a file is expected")
        fibers = all_fibers()
        gdb.execute("gcore " + argument)
        selected = gdb.selected_thread()
        with open(argument, "r+b") as core:
            segments = loaded_segments(core)
            for fiber in fibers:
                # A running one's registers are the thread's; what is below them does not matter.
                low = fiber.stack_pointer
                if fiber.is_running and thread_of(fiber):
                    low = int(gdb.newest_frame().read_register("sp")) - RED_ZONE
                copy_into(core, segments, low, page_end(fiber.stack_top))
        selected.switch()


def loaded_segments(core):
    """(address, size, place in the file) of an ELF core's memory."""
    header = struct.unpack("<16sHHIQQQIHHHHHH", core.read(64))
    size, count = header[9], header[10]
    core.seek(header[5])
    found = []
    for entry in (core.read(size) for _ in range(count)):
        kind, _, place, address, _, in_file, _, _ = struct.unpack("<IIQQQQQQ", entry[:56])
        if kind == 1:
            found.append((address, in_file, place))
    return found


def copy_into(core, segments, low, high):
    for address, size, place in segments:
        if address <= low and high <= address + size:
            core.seek(place + low - address)
            core.write(read(low, high - low))
            return
    print("the stack at 0x%x is in no segment of the core" % low)


def page_end(address):
    """Fibers' stacks end with their page; the top of the page describes the stack."""
    return (address + PAGE) // PAGE * PAGE


Lagom()
Core()
Fibers()
SwitchTo()
Backtrace()
