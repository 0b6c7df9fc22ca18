"""A yes is to what was seen, whatever an agent writes around it."""

import json

import pytest

from tests.asking_agent import ask_command, start_asking, wait_for_asked
from tests.cli_env import CliEnv

from .conftest import PHONE, WIDE, WebPage
from .test_page import ANSWERABLE, APPROVE

LONG = "This only lists the files of the project, as you asked. " * 160
# What of the first question is whole on the screen, and within the box that scrolls.
IN_SIGHT = """(selector => {
    const box = document.querySelector('.question').getBoundingClientRect();
    const part = document.querySelector(selector).getBoundingClientRect();
    return part.top >= box.top - 1 && part.bottom <= Math.min(box.bottom, innerHeight) + 1 && part.height > 0;
})"""


@pytest.mark.parametrize("size", [WIDE, PHONE, (640, 400)])
@pytest.mark.parametrize("path", ["/runs/{run}", "/"])
def test_however_long_an_agent_speaks_its_command_and_the_answers_are_in_sight(
    page: WebPage, cli_env: CliEnv, size: tuple[int, int], path: str
) -> None:
    call = {"toolCallId": "1", "title": LONG, "name": "tool" * 400, "rawInput": {"command": "rm -rf data", "why": LONG}}
    run = start_asking(cli_env, [call])
    page.browser.resize(*size)
    page.open(path.format(run=run))
    page.browser.wait_for(APPROVE)
    if path == "/":
        page.press_until("j", "document.querySelector('.chosen')")
    page.browser.wait_for(ANSWERABLE)
    for part in (".question-subject", ".button-approve"):
        assert page.browser.evaluate(f"{IN_SIGHT}({json.dumps(part)})"), part
    assert "rm -rf data" in page.browser.evaluate("document.querySelector('.question-subject').innerText")
    page.browser.press("a")
    cli_env.wait_for_events(run, "permission_answered")
    page.browser.resize(*WIDE)


def test_what_is_out_of_sight_takes_no_answer(page: WebPage, cli_env: CliEnv) -> None:
    run = start_asking(cli_env, [ask_command("1", "rm -rf data")])
    added = page.browser.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="""addEventListener('DOMContentLoaded', () => {
            const rule = '.question { max-height: 60px !important; } .question-title { margin-bottom: 90px; }';
            const sheet = new CSSStyleSheet();
            sheet.replaceSync(rule);
            document.adoptedStyleSheets = [sheet];
        });""",
    )
    page.open(f"/runs/{run}")
    page.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
    page.browser.wait_for(APPROVE)
    page.browser.evaluate("new Promise(done => setTimeout(done, 2000))")
    page.browser.press("a")
    page.browser.evaluate(f"{APPROVE}.click()")
    assert page.browser.evaluate(f"{APPROVE}.ariaDisabled") == "true"
    page.browser.evaluate("document.adoptedStyleSheets.pop() && true")
    page.browser.wait_for(ANSWERABLE)
    assert "permission_answered" not in cli_env.kinds(run)
    page.browser.press("a")
    cli_env.wait_for_events(run, "permission_answered")


@pytest.mark.parametrize("path", ["/runs/{run}", "/"])
def test_a_question_whose_id_comes_again_is_another_one(page: WebPage, cli_env: CliEnv, path: str) -> None:
    run = start_asking(cli_env, [ask_command("1", "ls")], [ask_command("1", "rm -rf data")])
    page.open(path.format(run=run))
    page.browser.wait_for(ANSWERABLE)
    page.browser.evaluate("""new MutationObserver(() => {
        const box = [...document.querySelectorAll('.question')].find(each => each.innerText.includes('rm -rf data'));
        if (!box || window.first) return;
        window.first = box.querySelector('.button-approve').ariaDisabled;
        box.querySelector('.button-approve').click();
    }).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true}) ?? true""")
    (asked,) = wait_for_asked(cli_env, run, 1)
    assert cli_env.inspan("approve", asked["id"]).returncode == 0
    page.browser.wait_for("window.first")
    assert page.browser.evaluate("window.first") == "true"
    page.browser.wait_for(ANSWERABLE)
    assert len([kind for kind in cli_env.kinds(run) if kind == "permission_answered"]) == 1
    page.browser.evaluate(f"{ANSWERABLE}.click()")
    page.browser.wait_for("!document.querySelector('.question')")
    cli_env.wait_for_end(run)
