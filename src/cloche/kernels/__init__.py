"""Kernels: the processes inside a sandbox where a conversation's state lives, one per context.

The agent starts them and passes frames on; a kernel runs one cell after the other and tells what comes of it.  All of
them speak `cloche.wire.frames` on a stream of their own, the *control*, whatever language they are for:

    from the agent                                  from the kernel
    CELL    {"code", "env", "language", …}            STARTED  {"pid", "lost"}   once, when it is ready
    INPUT / INPUT_END   (see below)                 STDOUT, STDERR   bytes, in the order in which they were written
    ANSWER  {"call", "value" | "error"}             DATA     a piece of a message: one byte (1: the last), then JSON
    FORK    {"frozen", "cwd"} + descriptors         EVENT    {"call", "tool", "args", "kwargs"}: a tool is called
    ASK     {"what": "variables", …}                EXIT     {"status", "code", "count", "cpu", "peak"}: end of the cell
    SYNC    (as it came)                            REPLY / FAIL   to ASK and FORK
                                                    SYNC     to be sent back when all before it has been taken

Every frame of a cell carries the operation of its CELL frame.  A message (of DATA frames, joined) is a JSON object:

    {"type": "result", "data": {mime: value}, "metadata": {…}, "count": 3}           the cell's last expression
    {"type": "display", "data": …, "metadata": …, "display_id": "…", "update": false}
    {"type": "clear"}                                                                what was displayed so far is void
    {"type": "error", "name", "message", "traceback", "ansi"}

Values are texts, JSON for JSON types, base64 for binary ones.  `status` is "ok", "error" (an exception), or "exit" (the
code asked to end, with `code`).

A kernel is interrupted by SIGINT to its process group, and ignores it between cells.  A cell that was given input finds
it on standard input: its descriptor comes with the CELL frame (SCM_RIGHTS), and is /dev/null afterwards; kernels that
are started by exec cannot receive one, so they get a path in "stdin" instead.  What is written to descriptors 1 and 2,
by whomever, goes to the agent, too, before any frame that is sent later.  So a kernel keeps output and displays in
order if it writes to its control, or waits for SYNC before it writes to a descriptor after having sent frames.

FORK (Python) makes a copy of the kernel, which answers STARTED on a control of its own: a checkpoint is a copy that
waits (`frozen`), restoring forks that copy again, and a branch is a copy that goes on.

What runs here is untrusted: the agent and the engine believe none of it, and it harms its own results alone.
"""
