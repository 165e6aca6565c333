"""Tables for missing_modules.py: the modules that each language has, and replacements for libraries that it may lack.

A row of replacements names libraries on the left, and on the right the modules, functions or expressions that do a part
of their work, the best first.
"""

from __future__ import annotations

# Packages whose modules have other names than the packages; the key is the package.
PYTHON_MODULES = {
    "beautifulsoup4": "bs4",
    "fpdf2": "fpdf",
    "ipython": "IPython",
    "markdown-it-py": "markdown_it",
    "opencv-python": "cv2",
    "opencv-python-headless": "cv2",
    "pdfminer-six": "pdfminer",
    "pdfminer.six": "pdfminer",
    "pillow": "PIL",
    "python-dateutil": "dateutil",
    "python-docx": "docx",
    "python-dotenv": "dotenv",
    "python-pptx": "pptx",
    "pyyaml": "yaml",
    "scikit-image": "skimage",
    "scikit-learn": "sklearn",
    "vl-convert-python": "vl_convert",
    "xgboost-cpu": "xgboost",
}

PYTHON = """
torch torchvision tensorflow keras jax flax mxnet theano fastai: sklearn statsmodels numpy
lightgbm catboost: xgboost sklearn
pyvips wand mahotas: skimage cv2 PIL
fitz pymupdf: pypdfium2 pdfplumber pypdf
PyPDF2 PyPDF4 pikepdf: pypdf pdfplumber
camelot tabula: pdfplumber pypdf
pdf2image: pypdfium2
weasyprint pdfkit xhtml2pdf borb: fpdf reportlab matplotlib
xlwt pyexcel pyxlsb xlutils xlwings pylightxl: openpyxl xlsxwriter xlrd
docx2txt docxtpl mammoth: docx
ujson simplejson rapidjson demjson json5: orjson json
httplib2 pycurl: httpx requests urllib.request
selenium playwright scrapy mechanize pyquery requests_html newspaper: bs4 lxml requests
dask vaex modin pyspark ray datatable cudf: polars duckdb pandas
spacy transformers gensim stanza flair sentence_transformers: nltk sklearn re
prophet pmdarima arch darts tsfresh neuralprophet linearmodels lifelines: statsmodels scipy
geopandas fiona: shapely plotly altair
folium cartopy basemap geopy rasterio pyproj: plotly altair matplotlib
igraph graph_tool graphviz pydot pygraphviz pyvis: networkx
pyecharts pygal ggplot plotnine holoviews hvplot bqplot mplfinance mpld3 cufflinks: plotly altair seaborn
psycopg2 psycopg MySQLdb pymysql mysql peewee pymongo redis sqlmodel pyodbc: sqlalchemy sqlite3 duckdb
django bottle gunicorn sanic falcon cherrypy: flask fastapi http.server
streamlit gradio dash panel: bokeh plotly
cython cupy numexpr bottleneck pythran: numba numpy
pygame PyQt5 PyQt6 PySide2 PySide6 wx kivy turtle tkinter Tkinter: matplotlib PIL
toml tomli pytoml: tomllib
ruamel oyaml strictyaml: yaml
arrow pendulum delorean maya moment: datetime dateutil
termcolor colorama colorlog blessed curses: rich
prettytable texttable terminaltables beautifultable: tabulate rich
xmltodict untangle: lxml xml.etree.ElementTree
markdown2 mistune commonmark mistletoe: markdown markdown_it
pyre2: regex re
pulp ortools cvxpy pyomo gurobipy mip cplex cvxopt nlopt: scipy
librosa pydub sounddevice audioread: soundfile scipy wave
typer docopt fire plac: click argparse
loguru structlog logbook: logging
nose nose2 hypothesis behave robot: pytest unittest
unidecode text_unidecode ftfy chardet cchardet: charset_normalizer unicodedata
Levenshtein fuzzywuzzy thefuzz jellyfish editdistance: rapidfuzz difflib
Crypto nacl Cryptodome bcrypt passlib: cryptography hashlib secrets
sh fabric paramiko plumbum invoke: subprocess
mimesis: faker random
environs decouple: dotenv os
segno: qrcode reportlab
barcode: reportlab
pyparsing ply lark parsy: pyparsing re
gmpy2 gmpy bigfloat mpmath: mpmath decimal fractions
more_itertools toolz cytoolz funcy: itertools functools
sortedcontainers blist bintrees: bisect heapq
attr attrs cattrs marshmallow: pydantic dataclasses
trio curio gevent eventlet: anyio asyncio
urllib2 urllib3 urlparse: urllib.request urllib.parse
ConfigParser: configparser
Queue: queue
StringIO cStringIO: io
cPickle dill: pickle cloudpickle
HTMLParser: html.parser
distutils: setuptools
imp: importlib
asyncore asynchat: asyncio
cgi cgitb: urllib.parse html
exceptions __builtin__: builtins
"""

NODE_MODULES = """
assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain events fs
fs/promises http http2 https inspector module net os path perf_hooks process punycode querystring readline
readline/promises repl stream stream/promises string_decoder test timers timers/promises tls tty url util v8 vm wasi
worker_threads zlib
"""

# Packages of the environment that programs may import; it has others that serve these.
NODE_PACKAGES = "axios cheerio d3 date-fns dayjs express js-yaml lodash mathjs papaparse uuid ws zod"

NODE = """
lodash underscore ramda lodash-es: lodash, the methods of Array and Object, structuredClone
axios node-fetch request got superagent needle cross-fetch undici: fetch, axios
moment dayjs date-fns luxon moment-timezone: dayjs, date-fns, Date, Intl.DateTimeFormat
uuid nanoid: uuid, crypto.randomUUID()
express koa fastify hapi connect restify: express, http
chalk colors kleur picocolors ansi-colors cli-color: util.styleText, escape sequences such as "\\x1b[31m"
glob rimraf mkdirp fs-extra graceful-fs globby fast-glob: fs (with `recursive: true`)
yargs commander minimist meow arg: util.parseArgs
jest mocha chai vitest ava tape jasmine: node:test, assert
bluebird async p-limit q p-map: Promise, async functions
csv-parse papaparse csv-parser csvtojson fast-csv: papaparse, readline, String.prototype.split
dotenv config: process.env
bignumber.js big.js decimal.js bn.js mathjs: mathjs, BigInt
yaml js-yaml: js-yaml
joi yup ajv superstruct zod: zod
inquirer prompts enquirer: readline
ws socket.io: ws, net
typescript ts-node tsx esbuild: language "typescript"
immutable immer: Object.freeze, structuredClone
bcrypt bcryptjs crypto-js argon2: crypto
jsdom cheerio: cheerio, language "python" with bs4
puppeteer playwright: language "python" with bs4
pandas danfojs numjs nodejs-polars: language "python" with pandas
"""

R_MODULES = "base compiler datasets grDevices graphics grid methods parallel splines stats stats4 tcltk tools utils"

R = """
dplyr tidyverse plyr sqldf dtplyr: aggregate, merge, subset, transform, order
data.table tidytable collapse: data.frame, aggregate, merge
tidyr reshape reshape2: reshape, stack, merge
ggplot2 plotly lattice ggpubr cowplot ggthemes: plot, hist, boxplot, barplot of the package graphics
readr readxl vroom openxlsx writexl xlsx: read.csv, read.table, write.csv
stringr stringi glue: gsub, regmatches, strsplit, sprintf, paste
purrr furrr rlang: lapply, Map, Filter, Reduce
lubridate chron hms: as.Date, as.POSIXct, strptime, difftime
tibble: data.frame
magrittr: |>
forcats: factor, levels, relevel
caret randomForest e1071 glmnet xgboost rpart nnet tidymodels gbm ranger class: lm, glm, nls, kmeans, prcomp of stats
forecast zoo xts tseries quantmod: ts, arima, HoltWinters of stats
MASS car lmtest sandwich lme4 nlme survival mgcv: lm, glm, aov, anova of stats
Matrix pracma matlib: matrix, solve, qr, svd, eigen
foreach doParallel future snow doMC: parallel
R6 proto: setRefClass
testthat RUnit assertthat: stopifnot
numDeriv nloptr optimx: optim, nlm, optimize
jsonlite rjson RJSONIO: language "python" with json
igraph network tidygraph: language "python" with networkx
"""

RUBY_MODULES = """
abbrev base64 benchmark bigdecimal bigdecimal/util cgi coverage csv date delegate digest digest/md5 digest/sha1
digest/sha2 drb English erb etc fiber fiddle fileutils find forwardable getoptlong io/console io/wait ipaddr irb json
logger matrix minitest minitest/autorun monitor net/ftp net/http net/imap net/pop net/smtp objspace observer open-uri
open3 openssl optparse ostruct pathname pp prettyprint prime pstore psych racc rake readline resolv rexml
rexml/document rinda ripper rss securerandom set shellwords singleton socket stringio strscan syslog tempfile test/unit
time timeout tmpdir tsort uri weakref yaml zlib
"""

RUBY = """
nokogiri ox oga hpricot: rexml/document
httparty faraday rest-client excon typhoeus http httpx: net/http
active_support activesupport active_support/all rails: set, time, date
pry byebug pry-byebug: irb
rspec rspec/autorun: minitest/autorun, test/unit
sinatra rack hanami roda: socket
oj yajl multi_json: json
colorize rainbow pastel tty-prompt paint: escape sequences such as "\\e[31m"
thor slop trollop commander: optparse
faker: securerandom
sqlite3 pg mysql2 sequel activerecord active_record: csv, pstore
numo/narray nmatrix daru: matrix
concurrent concurrent-ruby parallel celluloid: monitor, Thread, Ractor
roo spreadsheet caxlsx axlsx: csv
"""

PERL_MODULES = """
Archive::Tar B Benchmark Carp Class::Struct Compress::Zlib Config Cwd Data::Dumper Digest Digest::MD5 Digest::SHA Encode
English Env Errno Exporter Fcntl File::Basename File::Compare File::Copy File::Find File::Glob File::Path File::Spec
File::Spec::Functions File::stat File::Temp FindBin Getopt::Long Getopt::Std Hash::Util HTTP::Tiny I18N::Langinfo
IO::File IO::Handle IO::Select IO::Socket IO::Socket::INET IPC::Open2 IPC::Open3 JSON::PP List::Util Locale::Maketext
Math::BigFloat Math::BigInt Math::BigRat Math::Complex Math::Trig Memoize MIME::Base64 MIME::QuotedPrint Module::Load
parent base constant strict warnings utf8 feature bigint bigrat bignum overload POSIX Safe Scalar::Util SelfLoader
Socket Storable Symbol Sys::Hostname Term::ANSIColor Test::More Test::Simple Text::Abbrev Text::Balanced
Text::ParseWords Text::Tabs Text::Wrap Thread::Queue threads Tie::File Tie::Hash Time::HiRes Time::Local Time::Piece
Time::Seconds Unicode::Normalize Unicode::UCD
"""

PERL = """
JSON JSON::XS Cpanel::JSON::XS JSON::MaybeXS Mojo::JSON: JSON::PP
LWP::UserAgent LWP::Simple Mojo::UserAgent HTTP::Request WWW::Mechanize REST::Client: HTTP::Tiny
DateTime Date::Calc Date::Manip Date::Parse DateTime::Format::Strptime: Time::Piece POSIX
Moose Moo Mouse Class::Accessor Object::Pad Class::Tiny: parent, bless
Try::Tiny TryCatch: eval
Text::CSV Text::CSV_XS Spreadsheet::ParseExcel Spreadsheet::XLSX: Text::ParseWords
List::MoreUtils List::AllUtils List::UtilsBy List::SomeUtils: List::Util
File::Slurp Path::Tiny File::Slurper Path::Class IO::All: File::Spec File::Find open
Test::Deep Test::Most Test::Exception Test2::V0: Test::More
YAML YAML::XS YAML::Tiny YAML::PP: JSON::PP
XML::Simple XML::LibXML XML::Parser XML::Twig HTML::TreeBuilder: Text::Balanced
Modern::Perl common::sense: strict warnings
Readonly Const::Fast: constant
Math::Matrix PDL Math::MatrixReal: List::Util
Data::Printer Data::Dump: Data::Dumper
Parallel::ForkManager MCE: fork, threads
"""
