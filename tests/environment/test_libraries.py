"""Each library that the environment has beyond the most common ones imports in a sandbox and does one small thing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripts.docs_tables import reasons_of_python_packages

import cloche
from cloche import environment

PDF = """
from fpdf import FPDF
pdf = FPDF()
pdf.add_page()
pdf.set_font("helvetica", size=12)
pdf.cell(text="fern and basil")
pdf.output("/tmp/plants.pdf")
"""
# By package: a program, and what it prints.
PROGRAMS = {
    "aiohttp": (
        """
import asyncio
from aiohttp import ClientSession, test_utils, web

async def answer(request):
    return web.json_response({"plant": request.query["plant"]})

async def main():
    application = web.Application()
    application.router.add_get("/", answer)
    async with test_utils.TestServer(application) as server, ClientSession() as client:
        print(await (await client.get(server.make_url("/?plant=fern"))).json())

asyncio.run(main())
""",
        "{'plant': 'fern'}",
    ),
    "faker": (
        "from faker import Faker\nFaker.seed(1)\nfake = Faker(['de_DE', 'ja_JP'])\nprint('@' in fake.email())",
        "True",
    ),
    "fastapi": (
        """
from fastapi import FastAPI
from fastapi.testclient import TestClient
app = FastAPI()

@app.get("/{number}")
def double(number: int) -> int:
    return 2 * number

print(TestClient(app).get("/21").json(), TestClient(app).get("/x").status_code)
""",
        "42 422",
    ),
    "flask": (
        """
from flask import Flask, request
app = Flask(__name__)

@app.post("/")
def greet():
    return f"Hello {request.form['name']}"

print(app.test_client().post("/", data={"name": "fern"}).text)
""",
        "Hello fern",
    ),
    "fpdf2": (PDF + "print(open('/tmp/plants.pdf', 'rb').read(4))", "b'%PDF'"),
    "h5py": (
        """
import h5py, numpy
with h5py.File("/tmp/data.h5", "w") as file:
    file.create_dataset("heights", data=numpy.arange(6.0).reshape(2, 3), compression="gzip")
with h5py.File("/tmp/data.h5") as file:
    print(file["heights"][1].tolist())
""",
        "[3.0, 4.0, 5.0]",
    ),
    "imageio": (
        """
import imageio.v3 as iio, numpy
iio.imwrite("/tmp/moving.gif", numpy.random.default_rng(1).integers(0, 255, (3, 8, 8), numpy.uint8))
iio.imwrite("/tmp/still.tiff", numpy.eye(4, dtype=numpy.uint8))
print(iio.imread("/tmp/moving.gif").shape[0], iio.imread("/tmp/still.tiff").sum())
""",
        "3 4",
    ),
    "nltk": (
        """
from nltk import FreqDist, wordpunct_tokenize
from nltk.stem import PorterStemmer
words = [PorterStemmer().stem(word) for word in wordpunct_tokenize("Running dogs run.")]
print(FreqDist(words).most_common(1))
""",
        "[('run', 2)]",
    ),
    "numba": (
        """
import os
from numba import njit

@njit(cache=True)
def total(number):
    found = 0
    for each in range(number):
        found += each
    return found

print(total(1000), os.listdir("/tmp/.cache/numba") != [])
""",
        "499500 True",
    ),
    "opencv-python-headless": (
        """
import cv2, numpy
square = numpy.pad(numpy.full((20, 20), 255, numpy.uint8), 10)
contours, _ = cv2.findContours(square, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
faces = cv2.CascadeClassifier(cv2.data.haarcascades + "haarcascade_frontalface_default.xml")
print(cv2.contourArea(contours[0]), faces.empty())
""",
        "361.0 False",
    ),
    "orjson": (
        "import numpy, orjson\nprint(orjson.dumps({'a': numpy.arange(3)}, option=orjson.OPT_SERIALIZE_NUMPY))",
        "b'{\"a\":[0,1,2]}'",
    ),
    "pdfplumber": (
        PDF + "import pdfplumber\nprint(pdfplumber.open('/tmp/plants.pdf').pages[0].extract_text())",
        "fern and basil",
    ),
    "pypdfium2": (
        PDF + "import pypdfium2\nprint(pypdfium2.PdfDocument('/tmp/plants.pdf')[0].render().to_pil().size)",
        "(596, 842)",
    ),
    "python-dotenv": (
        "from io import StringIO\nfrom dotenv import dotenv_values\nprint(dict(dotenv_values(stream=StringIO('A=b'))))",
        "{'A': 'b'}",
    ),
    "python-multipart": (
        """
from typing import Annotated
from fastapi import FastAPI, Form
from fastapi.testclient import TestClient
app = FastAPI()

@app.post("/")
def greet(name: Annotated[str, Form()]) -> str:
    return name

print(TestClient(app).post("/", data={"name": "fern"}).json())
""",
        "fern",
    ),
    "qrcode": (
        """
import cv2, numpy, qrcode
picture = qrcode.make("plants").convert("L")
print(cv2.QRCodeDetector().detectAndDecode(numpy.array(picture))[0])
""",
        "plants",
    ),
    "rapidfuzz": (
        "from rapidfuzz import process\nprint(process.extractOne('basl', ['fern', 'basil', 'mint'])[0])",
        "basil",
    ),
    "scikit-image": (
        """
import numpy
from skimage import filters, measure
picture = numpy.zeros((20, 20))
picture[2:6, 2:6] = picture[10:15, 10:15] = 1
print(measure.label(filters.gaussian(picture) > 0.5).max())
""",
        "2",
    ),
    "shapely": (
        "from shapely import Point, box\nprint(round(Point(0, 0).buffer(1).intersection(box(0, 0, 2, 2)).area, 1))",
        "0.8",
    ),
    "soundfile": (
        """
import io, numpy, soundfile
for kind in ("WAV", "FLAC", "OGG", "MP3"):
    file = io.BytesIO()
    soundfile.write(file, numpy.zeros(8000), 8000, format=kind)
    file.seek(0)
    print(soundfile.read(file)[1], end=" ")
""",
        "8000 8000 8000 8000",
    ),
    "sqlalchemy": (
        """
import pandas
from sqlalchemy import create_engine, text
engine = create_engine("sqlite://")
pandas.DataFrame({"plant": ["fern", "mint"]}).to_sql("plants", engine)
with engine.connect() as connection:
    print(connection.execute(text("select count(*) from plants")).scalar())
""",
        "2",
    ),
    "textblob": ("from textblob import TextBlob\nprint(TextBlob('A great plant').sentiment.polarity)", "0.8"),
    "uv": ("import subprocess\nprint(subprocess.run(['/opt/env/bin/uv', 'pip', 'show', 'numpy']).returncode)", None),
    "uvicorn": (
        """
import asyncio, httpx, uvicorn

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})

async def main():
    server = uvicorn.Server(uvicorn.Config(app, port=8000, lifespan="off", log_level="critical"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    async with httpx.AsyncClient() as client:
        print((await client.get("http://127.0.0.1:8000")).text)
    server.should_exit = True
    await serving

asyncio.run(main())
""",
        "served",
    ),
    "vl-convert-python": (
        """
import altair, io, pandas
chart = altair.Chart(pandas.DataFrame({"a": [1, 2]})).mark_bar().encode(x="a:Q")
file = io.BytesIO()
chart.save(file, format="png")
print(file.getvalue()[1:4])
""",
        "b'PNG'",
    ),
    "websockets": (
        """
import asyncio, websockets

async def echo(connection):
    async for message in connection:
        await connection.send(message)

async def main():
    async with websockets.serve(echo, "127.0.0.1", 8001), websockets.connect("ws://127.0.0.1:8001") as connection:
        await connection.send("fern")
        print(await connection.recv())

asyncio.run(main())
""",
        "fern",
    ),
    "wordcloud": (
        "from wordcloud import WordCloud\ncloud = WordCloud(width=80, height=40)\n"
        "print(cloud.generate('fern mint mint').to_array().shape)",
        "(40, 80, 3)",
    ),
    "xarray": (
        "import xarray\nprint(xarray.DataArray([[1, 2], [3, 4]], dims=('x', 'y')).mean('x').values.tolist())",
        "[2.0, 3.0]",
    ),
    "xgboost-cpu": (
        """
import numpy, xgboost
inputs = numpy.arange(100.0).reshape(-1, 1)
model = xgboost.XGBRegressor(n_estimators=50).fit(inputs, inputs[:, 0] > 50)
print(round(float(model.predict([[10.0]])[0])), round(float(model.predict([[90.0]])[0])))
""",
        "0 1",
    ),
}


@pytest.fixture(scope="module")
def box(jail: None) -> Iterator[cloche.Sandbox]:
    """One sandbox for all: the libraries that one program has imported are in the page cache for the next."""
    if environment.is_slim(environment.location()):
        pytest.skip("the slim environment has none of these")
    with cloche.Sandbox(timeout=120) as box:
        yield box


def test_every_package_with_a_reason_is_tried():
    assert PROGRAMS.keys() == reasons_of_python_packages().keys()


@pytest.mark.parametrize("package", PROGRAMS)
def test_a_library_works(box, package):
    code, printed = PROGRAMS[package]
    result = box.run_program(code)
    assert result.ok, result.stderr
    assert printed is None or result.stdout.strip() == printed


def test_libraries_that_keep_files_also_work_with_the_home_of_root(box):
    box.files.write("temp/keeps.py", f"import cv2, matplotlib.pyplot, nltk, skimage\n{PROGRAMS['numba'][0]}")
    done = box.commands.run("sudo python3 temp/keeps.py")
    assert done.stdout == "499500 True\n", done.stderr


def test_data_that_nltk_would_download_is_missed_with_an_error_that_says_so(box):
    result = box.run_program("import nltk\nnltk.word_tokenize('a b')")
    assert result.error is not None
    assert result.error.name == "LookupError"
