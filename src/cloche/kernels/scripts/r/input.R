# Gives cells their standard input.  R cannot replace descriptor 0, and reads its own script where a person would type.  So
# the functions of base that read from there read from the cell's input instead, if it has one, whoever calls them.
input <- NULL # the path of the cell's input
typed <- NULL # the connection from which `readline`, `scan` and `stdin()` read
base_file <- base::file
base_stdin <- base::stdin
base_readline <- base::readline

begin_input <- function(path) input <<- path

end_input <- function() {
  if (is_open(typed)) close(typed)
  input <<- typed <<- NULL
}

# The number of a closed connection is given to the next one, so the number alone does not say which it is.
is_open <- function(connection) {
  !is.null(connection) &&
    tryCatch(identical(attr(getConnection(connection), "conn_id"), attr(connection, "conn_id")), error = function(condition) FALSE)
}

cell_stdin <- function() {
  if (is.null(input)) return(base_stdin())
  if (!is_open(typed)) typed <<- base_file(input, "r", raw = TRUE)
  typed
}

read_line <- function() {
  line <- readLines(cell_stdin(), 1L, warn = FALSE)
  if (!length(line)) Sys.sleep(0) # an interrupt ends the input, and takes effect here
  line
}

cell_readline <- function(prompt = "") {
  if (is.null(input)) return(base_readline(prompt))
  cat(prompt)
  flush(stdout())
  line <- read_line()
  if (!length(line)) stop("the standard input of this cell has ended", call. = FALSE)
  gsub("^[ \t]+|[ \t]+$", "", line)
}

# What a person types for `scan()` ends with an empty line.
typed_block <- function() {
  lines <- character()
  while (length(line <- read_line()) && nzchar(line)) lines <- c(lines, line)
  textConnection(lines, encoding = "UTF-8")
}

replace <- function(name, made) {
  unlockBinding(name, baseenv())
  assign(name, made, envir = baseenv())
  lockBinding(name, baseenv())
}

cell_file <- base_file
body(cell_file) <- bquote({
  if (is.character(path <- .(function() input)()) && (identical(description, "stdin") || identical(description, "/dev/stdin"))) {
    description <- path
    raw <- TRUE
  }
  .(body(base_file))
})
cell_scan <- base::scan
body(cell_scan) <- bquote({
  if (.(function() !is.null(input))() && identical(file, "") && missing(text) && n < 0 && nmax < 0 && nlines <= 0) {
    file <- .(typed_block)()
    on.exit(close(file))
  }
  .(body(base::scan))
})
replace("file", cell_file)
replace("stdin", cell_stdin)
replace("readline", cell_readline)
replace("scan", cell_scan)
