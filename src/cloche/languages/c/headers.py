"""Finds the headers of C and C++ that a snippet forgets to include."""

from __future__ import annotations

import re

from cloche.languages.c.snippet import blanked, includes, split

_C = {
    "stdio.h": "printf fprintf sprintf snprintf scanf sscanf fscanf puts putchar getchar fopen fclose fgets fputs "
    "fread fwrite fflush perror FILE stdout stderr stdin EOF",
    "stdlib.h": "malloc calloc realloc free exit abort atoi atof atol strtol strtod strtoul rand srand qsort bsearch "
    "abs labs getenv system EXIT_SUCCESS EXIT_FAILURE RAND_MAX",
    "string.h": "strlen strcpy strncpy strcat strncat strcmp strncmp strchr strrchr strstr strtok strdup memcpy "
    "memmove memset memcmp strerror",
    "math.h": "sqrt pow sin cos tan asin acos atan atan2 exp log log2 log10 floor ceil round fabs fmod cbrt hypot fmin "
    "fmax isnan isinf M_PI INFINITY NAN",
    "ctype.h": "isalpha isdigit isalnum isspace isupper islower ispunct isxdigit toupper tolower",
    "stdbool.h": "bool true false",
    "stdint.h": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t INT32_MAX "
    "INT64_MAX UINT32_MAX UINT64_MAX SIZE_MAX",
    "inttypes.h": "PRId32 PRId64 PRIu32 PRIu64 PRIx64",
    "stddef.h": "size_t ptrdiff_t NULL offsetof",
    "limits.h": "INT_MAX INT_MIN UINT_MAX LONG_MAX LONG_MIN LLONG_MAX LLONG_MIN CHAR_BIT",
    "float.h": "DBL_MAX DBL_MIN DBL_EPSILON FLT_MAX FLT_EPSILON",
    "time.h": "time clock difftime strftime localtime gmtime mktime time_t clock_t CLOCKS_PER_SEC clock_gettime",
    "assert.h": "assert",
    "errno.h": "errno",
    "stdarg.h": "va_list va_start va_end va_arg",
    "unistd.h": "sleep usleep fork getpid",
    "pthread.h": "pthread_t pthread_create pthread_join pthread_mutex_t",
}
_CPP = {
    "iostream": "cout cin cerr clog endl",
    "string": "string to_string stoi stol stoll stod getline",
    "vector": "vector",
    "map": "map multimap",
    "unordered_map": "unordered_map",
    "set": "set multiset",
    "unordered_set": "unordered_set",
    "algorithm": "sort stable_sort reverse find find_if count count_if max_element min_element transform for_each "
    "binary_search lower_bound upper_bound next_permutation remove_if unique all_of any_of none_of max min clamp fill "
    "copy swap shuffle",
    "numeric": "accumulate iota gcd lcm partial_sum reduce inner_product",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared",
    "functional": "function bind greater less plus",
    "queue": "queue priority_queue",
    "deque": "deque",
    "stack": "stack",
    "list": "list",
    "array": "array",
    "tuple": "tuple make_tuple tie",
    "utility": "pair make_pair move forward exchange to_underlying",
    "optional": "optional nullopt make_optional",
    "variant": "variant visit holds_alternative",
    "sstream": "stringstream istringstream ostringstream",
    "fstream": "ifstream ofstream fstream",
    "iomanip": "setw setprecision setfill hex",
    "chrono": "chrono",
    "thread": "thread this_thread",
    "mutex": "mutex lock_guard unique_lock scoped_lock",
    "future": "async future promise",
    "atomic": "atomic",
    "random": "mt19937 random_device uniform_int_distribution uniform_real_distribution",
    "stdexcept": "runtime_error invalid_argument out_of_range logic_error domain_error",
    "limits": "numeric_limits",
    "ranges": "ranges views",
    "bitset": "bitset",
    "regex": "regex smatch regex_match regex_search regex_replace",
    "string_view": "string_view",
    "complex": "complex",
    "cmath": "sqrt pow sin cos tan exp log floor ceil round fabs",
}
EVERYTHING = "bits/stdc++.h"  # GCC's header that includes the whole library
_BUILT_IN = ("bool", "true", "false")  # keywords in C++
# Names that are called, or that no variable would have: `time` alone may be anything.
_USED = r"(?<![\w.:>])(\w+)(?=\s*\()|\b([A-Z][A-Z0-9_]+|PRI\w+|\w+_t|bool|true|false|std(?:in|out|err)|errno|va_list)\b"
_USED_PLAINLY = r"(?<![\w.:>])(\w+)(?=\s*[(<])|\b(cout|cin|cerr|clog|endl|string|nullopt|chrono|views|hex|\w+stream)\b"
_USED_WITH_STD = r"\bstd\s*::\s*(\w+)()"
_DECLARED = r"\b(?!return\b|case\b|else\b|goto\b|throw\b)\w+(?:[\s*&>]*[\s*&>])(\w+)\s*[=;,)\[{]"


def missing_in_c(text: str) -> tuple[str, ...]:
    """List the headers whose names a C program uses and does not include."""
    return _missing(text, _C, _USED)


def missing_in_cpp(text: str) -> tuple[str, ...]:
    """List the missing headers of a C++ program; names of its library count after `std::` or `using namespace std`."""
    included = {name for name, _ in includes(text)}
    if EVERYTHING in included:
        return ()
    own = _missing(text, _CPP, _USED_WITH_STD)
    if re.search(r"\busing\s+namespace\s+std\b", blanked(text)):
        own += _missing(text, _CPP, _USED_PLAINLY)
    plain = _missing(text, _C, _USED, but=_BUILT_IN)
    shared = (name if name in ("unistd.h", "pthread.h") else f"c{name.removesuffix('.h')}" for name in plain)
    return tuple(dict.fromkeys((*own, *(name for name in shared if name not in included))))


def forgets_namespace(text: str) -> bool:
    """Does the code use names that nearly everybody takes from `std`, and never mention `std`?"""
    quiet = blanked(text)
    return not re.search(r"\bstd\b", quiet) and bool(re.search(r"\b(?:cout|cin|cerr|vector\s*<|string\s+\w)", quiet))


def _missing(text: str, table: dict[str, str], pattern: str, but: tuple[str, ...] = ()) -> tuple[str, ...]:
    named = includes(text)
    if any(not system for _, system in named):
        return ()  # the program's own header may include whatever it needs
    quiet = blanked(text)
    bare = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", quiet, flags=re.MULTILINE)
    used = {word for words in re.findall(pattern, bare) for word in words}.difference(but)
    own = {piece.function for piece in split(quiet) or ()}
    own.update(re.findall(r"#\s*define\s+(\w+)", quiet), re.findall(r"\b(?:struct|class|enum|union)\s+(\w+)", quiet))
    own.update(re.findall(_DECLARED, bare) if pattern != _USED_WITH_STD else ())
    included = {name for name, _ in named}
    return tuple(
        header
        for header, names in table.items()
        if header not in included and not used.isdisjoint(set(names.split()) - own)
    )
