"""The report's page in a real browser: sorted, filtered, opened, printed, by mouse and by keyboard; it sends no request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.classes import write_class
from grader.grading.result import write_result

from .made import a_test, graded, page, show, tree, ungraded

CHROMIUM = Path("/usr/bin/chromium")
if os.environ.get("LADDER_NEEDS_BROWSER"):  # where the project is tested for good, nothing is skipped
    import playwright.sync_api as playwright

    assert CHROMIUM.exists(), f"{CHROMIUM} is missing: the page has to be tested here"
else:
    playwright = pytest.importorskip("playwright.sync_api", reason="drives the page with playwright: install the test extra")
    if not CHROMIUM.exists():
        pytest.skip(f"drives the page in {CHROMIUM}, which is not installed", allow_module_level=True)

NAMES = [
    '<img src=x onerror="alert(1)">',
    "<script>alert(2)",
    'O"Brien, "Q" & Söhne',
    "مرحبا بالعالم",
    "👩‍🔬 名前",
    "=1+1",
    "__proto__",
]


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Opened:
    """A page, and everything that it complained about or asked the network for."""

    def __init__(self, browser, path: Path, **options) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#matrix table, #student:not([hidden])")

    def names(self) -> list[str]:
        """Students in the table, in order, as far as they are shown."""
        return self.page.locator("#matrix tbody tr:visible th").all_inner_texts()

    def column(self, number: int) -> list[str]:
        return self.page.locator(f"#matrix tbody tr:visible td:nth-child({number})").all_inner_texts()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    write_class(folder, students=30, exercises=4, seed=4, at_risk=4)
    odd = [NAMES[0], a_test("shape")]
    write_result(folder / "results", graded(*odd, exercise="ex02_embedding"))
    path = folder / "report.html"
    show(folder / "results", out=path, history=[folder / "history"], submissions=folder / "submissions")
    return path


@pytest.fixture
def opened(browser, made) -> Iterator[Opened]:
    shown = Opened(browser, made)
    yield shown
    shown.context.close()
    assert shown.complaints == []
    assert shown.requests == [made.as_uri()]


def test_the_class_is_sorted_by_name_and_by_any_column(opened):
    names = opened.names()
    assert len(names) == 31 and names[1:4] == ["0001 Bo Hopper", "0002 Chiara Okafor", "0003 Dmitri Franklin"]
    head = opened.page.locator("#matrix thead th").nth(5)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    totals = [points(text) for text in opened.column(6)]
    assert totals == sorted(totals, reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    totals = [points(text) for text in opened.column(6)]
    assert totals == sorted(totals)
    assert opened.page.locator("th[aria-sort]").count() == 2  # one in the table of the class, one in that of the tests


def points(text: str) -> float:
    got, most = text.split("/")
    return float(got) / float(most)


def test_what_is_not_graded_sorts_below_0_and_is_told_in_words(opened):
    opened.page.locator("#matrix thead th").nth(1).locator("button").click()
    last = opened.column(2)[-1]
    assert last in ("MISSING", "ERROR", "-")
    assert opened.page.locator("#matrix td.missing").first.inner_text() == "MISSING"


def test_the_class_is_filtered_by_name_and_by_what_is_wrong(opened):
    opened.page.get_by_label("Find a student").fill("hopper")
    assert opened.names() and all("Hopper" in name for name in opened.names())
    assert opened.page.locator("#shown").inner_text() == f"{len(opened.names())} of 31 shown"
    opened.page.get_by_label("Find a student").fill("")
    opened.page.get_by_label("Show", exact=True).select_option("risk")
    assert 4 <= len(opened.names()) <= 8
    opened.page.get_by_label("Show", exact=True).select_option("all")
    opened.page.get_by_label("Find a student").fill("nobody is called so")
    assert opened.names() == [] and opened.page.locator("#shown").inner_text() == "0 of 31 shown"


def test_a_student_is_opened_walked_and_left_by_keyboard_alone(opened):
    keyboard = opened.page.keyboard
    keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.className") == "skip"
    for _ in range(60):
        keyboard.press("Tab")
        if opened.page.evaluate("document.activeElement.closest('#matrix tbody') !== null"):
            break
    name = opened.page.evaluate("document.activeElement.innerText")
    keyboard.press("Enter")
    opened.page.wait_for_selector("#student:not([hidden])")
    assert opened.page.evaluate("document.activeElement.innerText") == name == opened.page.locator("#student h2").inner_text()
    assert not opened.page.locator("#overview").is_visible()
    opened.page.get_by_role("link", name="Next").click()
    opened.page.wait_for_function("name => document.querySelector('#student h2').innerText !== name", arg=name)
    keyboard.press("Escape")
    opened.page.wait_for_selector("#overview:not([hidden])")
    assert not opened.page.locator("#student").is_visible()
    assert opened.page.evaluate("document.activeElement.closest('#matrix') !== null")


def test_the_buttons_of_the_headings_work_by_keyboard(opened):
    button = opened.page.locator("#matrix thead th").nth(5).locator("button")
    button.focus()
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("#matrix thead th").nth(5).get_attribute("aria-sort") == "descending"
    assert opened.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


WITH_MOST_MISTAKES = """() => {
    const mistakes = data.students.map((one) => one.cells.every((cell) => cell.outcomes)
        ? one.cells.map((cell) => cell.outcomes).join("").replaceAll(/[^f]/g, "").length : -1);
    return mistakes.indexOf(Math.max(...mistakes));
}"""


def test_a_students_page_shows_every_test_its_feedback_and_its_history(opened):
    index = opened.page.evaluate(WITH_MOST_MISTAKES)
    opened.page.locator(f"#matrix a[href='#student={index}']").first.click()
    opened.page.wait_for_selector("#student:not([hidden])")
    student = opened.page.locator("#student")
    assert student.locator("h3").count() == 4
    tests = opened.page.evaluate(
        "index => data.students[index].cells.reduce((sum, cell) => sum + (cell.outcomes || '').replaceAll('.', '').length, 0)",
        index,
    )
    assert student.locator("table.tests tbody tr").count() == tests > 80
    assert student.get_by_text("looks like").count() > 0 and student.get_by_text("differs in").count() > 0
    assert "attempts" in student.inner_text()
    opened.page.go_back()
    opened.page.wait_for_selector("#overview:not([hidden])")


def test_the_lists_at_the_top_lead_to_the_student_and_to_the_table(opened):
    first = opened.page.locator("section[aria-labelledby=help] a").first
    name = first.inner_text()
    first.click()
    opened.page.wait_for_selector("#student:not([hidden])")
    assert opened.page.locator("#student h2").inner_text() == name
    assert "May need help" in opened.page.locator("#student").inner_text()


def test_the_tests_are_filtered_and_sorted_and_begin_with_the_worst(opened):
    lines = opened.page.locator("#items tbody tr:visible")
    weights = lines.evaluate_all("lines => lines.map((one) => Number(one.dataset.weight))")
    assert weights == sorted(weights, reverse=True) and weights[-1] >= 2
    flagged = lines.count()
    opened.page.locator("#test-show").select_option("all")
    every = lines.count()
    opened.page.locator("#test-exercise").select_option("ex02_embedding")
    assert flagged < every and lines.count() < every
    opened.page.locator("#items thead button").nth(4).click()
    shown = opened.page.locator("#items tbody tr:visible td:nth-child(5)").all_inner_texts()
    found = [float(text) for text in shown if text != "-"]
    assert found == sorted(found) and len(found) > 10


def test_pairs_that_resemble_each_other_stand_side_by_side(opened):
    pair = opened.page.locator("details.pair").first
    pair.locator("summary").click()
    left, right = pair.locator("pre").all()
    assert left.bounding_box()["y"] == right.bounding_box()["y"] and left.bounding_box()["x"] < right.bounding_box()["x"]
    assert left.locator("mark").count() > 10


def test_narrow_screens_never_scroll_sideways_as_a_whole(opened):
    opened.page.set_viewport_size({"width": 390, "height": 800})
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    opened.page.evaluate("location.hash = '#student=2'")
    opened.page.wait_for_selector("#student:not([hidden])")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_by_day_and_by_night(browser, made, scheme):
    shown = Opened(browser, made, color_scheme=scheme)
    for one in ("body", "td.full", "td.low", "td.missing", ".quiet", ".weight3", "#matrix a", "figcaption"):
        assert shown.page.evaluate(CONTRAST, one) >= 4.5, one
    for one in ("weight2", "weight1"):  # which flags there are depends on the class
        shown.page.evaluate("name => { document.querySelector('.weight3').className = name; }", one)
        assert shown.page.evaluate(CONTRAST, f".{one}") >= 4.5, one
        shown.page.evaluate("name => { document.querySelector('.' + name).className = 'weight3'; }", one)
    paper = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    bar = shown.page.locator(".chart path[fill='var(--mark)']").first
    assert bar.evaluate("node => getComputedStyle(node).fill") == (
        "rgb(47, 111, 219)" if scheme == "light" else "rgb(122, 169, 255)"
    )
    shown.context.close()


CONTRAST = """(selector) => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const node = document.querySelector(selector);
  let behind = node;
  while (behind && /rgba\\(0, 0, 0, 0\\)/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  const [one, other] = [light(getComputedStyle(node).color), light(getComputedStyle(behind || document.body).backgroundColor)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}"""


def test_paper_shows_what_is_open_and_no_controls(opened, tmp_path):
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert not opened.page.locator("#class-controls").is_visible() and not opened.page.locator("nav.contents").is_visible()
    assert opened.page.locator("#matrix table").is_visible()
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    opened.page.pdf(path=tmp_path / "class.pdf", format="A4", landscape=True)
    assert (tmp_path / "class.pdf").read_bytes().startswith(b"%PDF")


def test_names_and_feedback_are_text_whatever_they_hold(browser, tmp_path):
    nasty = '<b onmouseover="alert(3)">&amp;</b></script><svg onload=alert(4)>'
    wrong = a_test("shape", "failed", title=nasty, message=nasty, diagnosis=nasty, hint=nasty, detail=nasty, picture=nasty)
    for name in NAMES:
        tree(
            tmp_path / "r",
            graded(name, wrong, output=nasty),
            ungraded(name, "error", nasty, exercise="ex07_attention"),
        )
    page(tmp_path / "r", tmp_path)
    shown = Opened(browser, tmp_path / "report.html")
    assert set(NAMES) == set(shown.names())
    for number in range(len(NAMES)):
        shown.page.evaluate(f"location.hash = '#student={number}'")
        shown.page.wait_for_function(f"document.querySelector('#student h2')?.innerText === {shown_name(shown, number)!r}")
        text = shown.page.locator("#student").inner_text()
        assert text.count(nasty) >= 4
    assert shown.page.locator("#student b[onmouseover], svg[onload], img").count() == 0
    assert shown.complaints == [] and len(shown.requests) == 1
    shown.context.close()


def shown_name(shown: Opened, number: int) -> str:
    return shown.page.evaluate(f"data.students[{number}].name")


def test_one_students_page_shows_nobody_else_and_nothing_for_the_instructor_alone(browser, tmp_path):
    broken = a_test("value", "failed", detail="SECRET traceback", message="seen")
    tree(tmp_path / "r", graded("ada", a_test("shape"), broken), graded("bob", a_test("shape")))
    show(tmp_path / "r", out=tmp_path / "ada.html", student="ada")
    html = (tmp_path / "ada.html").read_text()
    assert "bob" not in html and "SECRET" not in html
    shown = Opened(browser, tmp_path / "ada.html")
    assert shown.page.locator("#student h2").inner_text() == "ada" and "seen" in shown.page.locator("#student").inner_text()
    assert shown.complaints == []
    shown.context.close()


def test_a_page_too_large_to_stand_plain_is_packed_and_opens_the_same(browser, tmp_path):
    for number in range(150):
        wrong = [a_test(f"t{one}", "failed", message=f"{number} differs {one} " * 20) for one in range(4)]
        write_result(tmp_path / "r", graded(f"s{number}", *wrong))
    html = page(tmp_path / "r", tmp_path)
    assert 'data-packed="deflate"' in html and "differs 3" not in html
    shown = Opened(browser, tmp_path / "report.html")
    assert len(shown.names()) == 150
    shown.page.evaluate("location.hash = '#student=149'")
    shown.page.wait_for_selector("#student:not([hidden])")
    assert "149 differs 3" in shown.page.locator("#student").inner_text()
    assert shown.complaints == []
    shown.context.close()


def test_a_browser_that_cannot_unpack_says_so(browser, tmp_path):
    for number in range(150):
        write_result(tmp_path / "r", graded(f"s{number}", a_test("t", "failed", message=f"{number} " * 500)))
    page(tmp_path / "r", tmp_path)
    context = browser.new_context()
    old = context.new_page()
    old.add_init_script("delete window.DecompressionStream")
    old.goto((tmp_path / "report.html").as_uri())
    old.wait_for_selector("#trouble:not([hidden])")
    assert "Firefox 113" in old.locator("#trouble").inner_text()
    assert old.get_by_role("heading", name="Look at these tests").is_visible()
    context.close()
