# Runs the cells of an R kernel: kernels/folder_kernel.py sends their numbers, and finds the results in their folders.
local({
  root <- commandArgs(TRUE)[1L]
  folder <- root # of the current cell
  scripts <- file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1L])), "r")
  for (script in c("input.R", "variables.R")) sys.source(file.path(scripts, script), environment(), keep.source = FALSE)
  opened <- 0L # devices that the cell has opened

  # Without TZ, R asks systemd for the time zone, which is not there, and prints a warning about that.
  zone <- sub(".*/zoneinfo/", "", Sys.readlink("/etc/localtime"))
  if (nzchar(zone) && !nzchar(Sys.getenv("TZ"))) Sys.setenv(TZ = zone)

  # Plots of a cell become pictures: 001-001.png, 001-002.png …
  options(device = function(width = 8, height = 6, ...) {
    opened <<- opened + 1L
    pages <- file.path(folder, sprintf("%03d-%%03d.png", opened))
    grDevices::png(pages, width = width, height = height, units = "in", res = 100, type = "cairo")
  })

  put <- function(name, ...) cat(..., file = file.path(folder, name), sep = "")

  # Format a call for a reader; code at the top level of a cell has none.
  call_text <- function(call) {
    text <- if (is.null(call)) "" else paste(deparse(call, nlines = 1L), collapse = "")
    if (startsWith(text, "eval(expressions[[number]]")) "" else text
  }

  show <- function(value) if (isS4(value)) methods::show(value) else print(value)

  # Warnings are kept, and printed after each top-level expression, as R does.
  warned <- list()
  keep_warning <- function(condition) {
    if (getOption("warn") != 0) return()
    warned[[length(warned) + 1L]] <<- condition
    invokeRestart("muffleWarning")
  }
  print_warnings <- function() {
    if (!length(warned)) return()
    messages <- vapply(warned, function(condition) {
      call <- call_text(conditionCall(condition))
      paste0(if (nzchar(call)) paste0("In ", call, " : "), conditionMessage(condition))
    }, "")
    if (length(messages) > 1L) messages <- paste0(seq_along(messages), ": ", messages)
    message(paste(c(if (length(messages) > 1L) "Warning messages:" else "Warning message:", messages), collapse = "\n"))
    warned <<- list()
  }

  evaluate <- function(expressions) {
    last <- length(expressions)
    for (number in seq_len(last)) {
      value <- withCallingHandlers(withVisible(eval(expressions[[number]], globalenv())), warning = keep_warning)
      if (value$visible) {
        if (number < last) show(value$value)
        else {
          text <- withCallingHandlers(utils::capture.output(show(value$value)), warning = keep_warning)
          if (length(text)) put("value", paste(text, collapse = "\n"))
        }
      }
      print_warnings()
    }
  }

  trace <- character()
  remember_calls <- function(condition) {
    calls <- vapply(sys.calls(), function(call) paste(deparse(call, nlines = 1L), collapse = ""), "")
    first <- which(startsWith(calls, "eval(expressions[[number]]"))
    last <- which(startsWith(calls, ".handleSimpleError(") | startsWith(calls, "h(simpleError("))
    end <- if (length(last)) last[1L] - 1L else length(calls) - 1L
    # `eval` calls itself once; the calls after the last `eval` are the cell's own.
    begin <- if (length(first)) first[length(first)] + 1L else 1L
    trace <<- if (begin <= end) calls[begin:end] else character()
  }

  fail <- function(name, condition, calls = character()) {
    print_warnings()
    call <- if (name == "SyntaxError") "" else call_text(conditionCall(condition))
    message <- gsub(file.path(folder, "code.R"), "<cell>", conditionMessage(condition), fixed = TRUE)
    head <- if (nzchar(call)) paste0("Error in ", call, " : ") else "Error: "
    put("error", name, "\n", message)
    lines <- if (length(calls)) c("Traceback:", paste0(format(seq_along(calls)), ": ", calls))
    put("trace", paste(c(paste0(head, message), lines), collapse = "\n"))
  }

  run <- function() {
    tryCatch(
      {
        expressions <- tryCatch(
          parse(file.path(folder, "code.R"), keep.source = TRUE, encoding = "UTF-8"),
          error = function(condition) {
            fail("SyntaxError", condition)
            NULL
          }
        )
        withCallingHandlers(evaluate(expressions), error = remember_calls)
      },
      error = function(condition) fail("Error", condition, trace),
      interrupt = function(condition) fail("KeyboardInterrupt", simpleCondition("The cell was interrupted."))
    )
    for (device in rev(grDevices::dev.list())) grDevices::dev.off(device)
  }

  environment_of <- function() {
    lines <- readLines(file.path(folder, "env"), encoding = "UTF-8")
    if (!length(lines)) return(list())
    names <- lines[c(TRUE, FALSE)]
    values <- vapply(lines[c(FALSE, TRUE)], function(hex) {
      if (!nzchar(hex)) "" else rawToChar(as.raw(strtoi(substring(hex, seq(1L, nchar(hex), 2L), seq(2L, nchar(hex), 2L)), 16L)))
    }, "", USE.NAMES = FALSE)
    structure(as.list(values), names = names)
  }

  commands <- fifo(file.path(root, "commands"), "r", blocking = TRUE)
  reports <- file(file.path(root, "reports"), "w", raw = TRUE)
  repeat {
    number <- tryCatch(readLines(commands, 1L), interrupt = function(condition) character())
    if (!length(number)) next
    if (startsWith(number, "list-")) {
      tryCatch(suppressWarnings(list_variables(file.path(root, number))), interrupt = function(condition) NULL, error = function(condition) NULL)
      next
    }
    folder <- file.path(root, number)
    given <- file.path(folder, "stdin")
    if (file.exists(given)) begin_input(readLines(given))
    opened <- 0L
    trace <- character()
    set <- environment_of()
    before <- Sys.getenv(names(set), unset = NA, names = TRUE)
    if (length(set)) do.call(Sys.setenv, set)
    tryCatch(run(), interrupt = function(condition) NULL)
    end_input()
    for (name in names(set)) if (is.na(before[[name]])) Sys.unsetenv(name) else do.call(Sys.setenv, as.list(before[name]))
    flush(stdout())
    cat(number, "\n", file = reports, sep = "")
    flush(reports)
  }
}, new.env(parent = .BaseNamespaceEnv)) # whatever functions a cell defines, these find those of base
