# Writes the session's variables for cloche.kernels.variable_report.  Nothing of the user's code runs for that: active
# bindings and promises are not evaluated, and objects are looked at without their class, for which a cell may have defined
# methods.
most_listed <- 1000L
most_seconds <- 3 # R compiles these functions when they are first used, on a busy machine for a second

length_of <- function(value) length(unclass(value))
is_a <- function(value, name) any(attr(value, "class", TRUE) == name)
now <- function() .subset2(proc.time(), 3L)

first_of <- function(value, count) {
  part <- .subset(value, seq_len(min(count, length_of(value))))
  attributes(part) <- NULL
  part
}

cut_to <- function(text, room) if (nchar(text, "chars", allowNA = TRUE) %in% seq_len(room)) text else substr(text, 1L, room + 1L)

strings_of <- function(strings, room, quote) {
  strings <- substr(enc2utf8(strings), 1L, room)
  strings[!validUTF8(strings)] <- "(not UTF-8)"
  encodeString(strings, quote = quote)
}

# Calendar dates from days since 1970, which R's own functions would format by methods.
date_of <- function(days) {
  day <- floor(days) + 719468
  era <- day %/% 146097
  of_era <- day - era * 146097
  year <- (of_era - of_era %/% 1460 + of_era %/% 36524 - of_era %/% 146096) %/% 365
  of_year <- of_era - (365 * year + year %/% 4 - year %/% 100)
  month <- (5 * of_year + 2) %/% 153
  january <- month >= 10
  text <- sprintf("%04.0f-%02.0f-%02.0f", year + era * 400 + january, month + ifelse(january, -9, 3), of_year - (153 * month + 2) %/% 5 + 1)
  text[!is.finite(days)] <- "NA"
  text
}

items_of <- function(value, count, room, quote = "\"") {
  part <- first_of(value, count)
  if (is_a(value, "factor")) {
    labels <- attr(value, "levels", TRUE)
    if (typeof(labels) == "character") return(substr(labels[part], 1L, room))
  }
  if (typeof(part) == "character") return(strings_of(part, room, quote))
  if (typeof(part) == "double" && is_a(value, "Date")) return(date_of(part))
  if (typeof(part) == "double" && is_a(value, "POSIXct")) {
    seconds <- floor(part %% 86400)
    time <- sprintf(" %02.0f:%02.0f:%02.0f UTC", seconds %/% 3600, seconds %/% 60 %% 60, seconds %% 60)
    return(paste0(date_of(part / 86400), ifelse(is.finite(part), time, "")))
  }
  as.character(part)
}

named <- function(items, value) {
  names <- attr(value, "names", TRUE)
  if (typeof(names) != "character") return(items)
  names <- substr(enc2utf8(names[seq_along(items)]), 1L, 60L)
  ifelse(nzchar(names), paste0(names, " = ", items), items)
}

text_of <- function(value, room, depth = 2L) {
  kind <- typeof(value)
  if (kind %in% c("logical", "integer", "double", "complex", "character", "raw")) {
    count <- length_of(value)
    items <- items_of(value, min(room, 1000L), room)
    if (count == 1L && is.null(attr(value, "names", TRUE))) return(items)
    return(paste0("c(", paste(c(named(items, value), if (length(items) < count) "..."), collapse = ", "), ")"))
  }
  if (kind == "list") {
    if (depth == 0L) return("list(...)")
    count <- min(length_of(value), room %/% 10L)
    items <- vapply(seq_len(count), function(place) {
      cut_to(text_of(.subset2(value, place), room %/% 4L, depth - 1L), room %/% 4L)
    }, "")
    return(paste0("list(", paste(c(named(items, value), if (count < length_of(value)) "..."), collapse = ", "), ")"))
  }
  switch(kind,
    "NULL" = "NULL",
    closure = paste0("function(", paste(names(formals(value)), collapse = ", "), ")"),
    symbol = , language = , promise = paste(deparse(value, nlines = room %/% 60L), collapse = "\n"),
    paste0("<", kind, ">")
  )
}

# The first rows of a table, in columns of equal width.
rows_of <- function(table) {
  width <- min(length_of(table), 20L)
  columns <- lapply(seq_len(width), function(place) {
    column <- .subset2(table, place)
    atomic <- !(typeof(column) %in% c("list", "environment", "S4"))
    cells <- c(substr(enc2utf8(attr(table, "names", TRUE)[place]), 1L, 40L), if (atomic) substr(items_of(column, 20L, 40L, ""), 1L, 40L))
    paste0(cells, strrep(" ", max(nchar(cells)) - nchar(cells)))
  })
  height <- .row_names_info(table, 2L)
  lines <- do.call(paste, c(columns, sep = "  "))
  paste(c(lines, if (height > 20L) sprintf("... %d more rows", height - 20L)), collapse = "\n")
}

shape_of <- function(value) {
  if (is_a(value, "data.frame") && typeof(value) == "list") return(paste(.row_names_info(value, 2L), "\u00d7", length_of(value)))
  dimensions <- attr(value, "dim", TRUE)
  if (!is.null(dimensions)) return(paste(first_of(dimensions, 10L), collapse = " \u00d7 "))
  if (typeof(value) %in% c("logical", "integer", "double", "complex", "character", "raw", "list")) {
    return(as.character(length_of(value)))
  }
  ""
}

is_promise <- function(place) {
  lines <- utils::capture.output(.Internal(inspect(place, 2L, 1L)))
  any(grepl("^ +@[0-9a-f]+ 05 PROMSXP", lines))
}

describe <- function(name, room) {
  if (bindingIsActive(as.name(name), globalenv())) return(c("active binding", "", "0", ""))
  # A copy of the binding, which this function does not evaluate, in a place where `substitute` does not either.
  place <- new.env(hash = FALSE, parent = emptyenv())
  .Internal(importIntoEnv(place, name, globalenv(), name))
  value <- eval(call("substitute", as.name(name), place), baseenv())
  if (typeof(value) %in% c("symbol", "language") && is_promise(place)) {
    return(c("promise", "", "0", text_of(value, room)))
  }
  is_table <- is_a(value, "data.frame") && typeof(value) == "list" && typeof(attr(value, "names", TRUE)) == "character"
  text <- if (!is_table) text_of(value, room)
    else if (room > 120L) rows_of(value)
    else paste(substr(enc2utf8(first_of(attr(value, "names", TRUE), 12L)), 1L, 60L), collapse = ", ")
  if (room > 120L && typeof(value) == "character" && !is.object(value) && length(value) == 1L && !is.na(value)) text <- value
  if (room > 120L && typeof(value) == "closure") text <- paste(deparse(value, nlines = 200L), collapse = "\n")
  c(class(value)[1L], shape_of(value), "0", cut_to(text, room))
}

list_variables <- function(path) {
  request <- readLines(paste0(path, ".request"), encoding = "UTF-8")
  search <- tolower(request[1L])
  only <- request[2L]
  names <- ls(envir = globalenv())
  names <- names[nchar(names, "chars", allowNA = TRUE) %in% 1:100]
  names <- if (nzchar(only)) names[names == only] else names[grepl(search, tolower(names), fixed = TRUE)]
  pipe <- base_file(path, "wb", raw = TRUE)
  on.exit(close(pipe))
  put <- function(text) writeBin(c(charToRaw(enc2utf8(text)), raw(1L)), pipe)
  put(as.character(length(names)))
  end <- now() + most_seconds
  for (name in names[seq_len(min(length(names), most_listed))]) {
    found <- if (now() < end) tryCatch(describe(name, if (nzchar(only)) 8000L else 120L), error = function(condition) NULL)
    for (field in c(name, if (length(found) == 4L && !anyNA(found)) found else c("", "", "0", ""))) put(field)
  }
}
