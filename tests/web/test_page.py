"""What a person does on the page, in a real Chromium, with real runs."""

import json
import shlex
import subprocess

import pytest

from tests.browser import Browser
from tests.cli.scenarios import release_tool, start_waiting_run
from tests.cli_env import CliEnv
from tests.server.living_run import LivingRun
from tests.server.server_process import ServerProcess, choose_port

from .conftest import PHONE, WIDE, WebPage


def run_to_end(cli_env: CliEnv, scenario: str, *, agent: str = "scripted") -> str:
    """Runs to the end and gives the id."""
    run = cli_env.detach(agent, scenario)
    cli_env.wait_for_end(run)
    return run


def make_repository(cli_env: CliEnv) -> None:
    """Makes the working folder a repository with one commit."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *identity, *words], cwd=cli_env.work, env=cli_env.env, check=True)


FIX = """
[[call]]
say = "I look at it first."
run = "echo a line of output; exit 3"
[[call]]
write = {path = "new.txt", content = "hello\\n"}
[[call]]
say = "**Done**: it says hello."
"""
ASK = """
[[call]]
say = "I would write it."
write = {path = "asked.txt", content = "yes\\n"}
[[call]]
say = "All done here."
"""
TWICE = """
[[call]]
run = "touch first.txt"
[[call]]
run = "touch second.txt"
[[call]]
say = "All done here."
"""
APPROVE = "document.querySelector('.button-approve')"
ANSWERABLE = "document.querySelector('.button-approve:not([aria-disabled=true])')"
EVIL = (
    "<img src=x onerror=window.hacked=1> [a link](javascript:window.hacked=2) [good](https://example.org) "
    r"\u202Eevil \u001b[31mred <script>window.hacked=3</script>"
)
HOSTILE = f'[[call]]\nsay = "{EVIL}"\n'


def test_a_link_logs_in_and_its_token_leaves_the_address(page: WebPage) -> None:
    page.see("New run")
    assert page.browser.evaluate("location.href") == f"{page.origin}/"
    assert page.browser.evaluate("document.cookie") == ""
    page.open("/")
    page.see("New run")


def test_without_a_token_the_page_says_how_to_get_in(browser: Browser, server: ServerProcess) -> None:
    page = WebPage(browser, server)
    browser.open("about:blank")
    page.open("/#token=wrong")
    page.see("inspan serve")
    assert server.token not in page.words


def test_nothing_is_asked_of_another_host(page: WebPage) -> None:
    page.browser.requests.clear()
    for path in ("/", "/cost", "/start", "/runs/none"):
        page.open(path)
        page.browser.wait_for("document.querySelector('main')")
    asked = [each for each in page.browser.requests if not each.startswith("about:")]
    assert asked and all(each.startswith(page.origin + "/") for each in asked)


def test_without_runs_the_list_teaches_the_next_command(page: WebPage) -> None:
    page.see("No runs yet", "inspan demo")


def test_a_run_is_followed_while_it_works_and_to_its_end(page: WebPage, cli_env: CliEnv) -> None:
    run = start_waiting_run(cli_env)
    page.see("do it", "working")
    page.open(f"/runs/{run}")
    page.see("working", "touch started")
    release_tool(cli_env)
    page.see("completed")
    assert page.browser.evaluate("performance.getEntriesByType('navigation').length") == 1


def test_what_an_agent_asks_for_comes_first_and_is_approved_by_a_key(page: WebPage, cli_env: CliEnv) -> None:
    run = cli_env.detach("claude", ASK, "--ask", "*", "--open")
    page.see("Needs you", "wants to use")
    page.browser.wait_for("document.title.includes('needs you')")
    page.press_until("j", "document.querySelector('.chosen')")
    page.browser.wait_for(ANSWERABLE)
    # One that comes in the moment in which the question moves does not count.
    page.press_until("a", "!document.body.innerText.includes('wants to use')")
    cli_env.wait_for_events(run, "permission_answered")
    page.miss("wants to use")
    page.open(f"/runs/{run}")
    page.see("All done here.")
    assert (cli_env.work / "asked.txt").read_text() == "yes\n"
    assert cli_env.inspan("close", run).returncode == 0


def test_what_an_agent_asks_for_is_denied_on_its_own_page(page: WebPage, cli_env: CliEnv) -> None:
    run = cli_env.detach("claude", ASK, "--ask", "*", "--open")
    page.open(f"/runs/{run}")
    page.see("wants to use")
    page.click("Deny")
    page.see("Back")
    page.browser.type("not today")
    page.click("Deny")
    page.see("All done here.")
    answered = next(each for each in cli_env.events(run) if each["kind"] == "permission_answered")
    assert (answered["allowed"], answered.get("reason")) == (False, "not today")
    assert not (cli_env.work / "asked.txt").exists()
    assert cli_env.inspan("close", run).returncode == 0


def test_a_yes_is_to_what_has_been_on_the_screen_for_a_moment(page: WebPage, cli_env: CliEnv) -> None:
    run = cli_env.detach("claude", TWICE, "--ask", "*", "--open")
    page.open(f"/runs/{run}")
    page.browser.wait_for(ANSWERABLE)
    page.browser.evaluate("""new MutationObserver(() => {
        // Whatever comes up is pressed at once, as by a hand that was on its way to what stood there before.
        if (!document.body.innerText.includes('touch second.txt') || !document.querySelector('.button-approve')) return;
        document.querySelector('.button-approve').click();
        window.pressed = (window.pressed ?? 0) + 1;
    }).observe(document.body, {subtree: true, childList: true}) ?? true""")
    page.browser.press("a", repeats=3)
    page.press_until("a", "window.pressed")
    page.browser.press("a", repeats=20)
    # Which of them is the first that counts depends on the machine: no more than that it came late enough is promised.
    page.press_until("a", "document.body.innerText.includes('All done here.')")
    records = [json.loads(line) for line in cli_env.inspan("events", run).stdout.splitlines()]
    asked, answered = (
        [each["t"] for each in records if each["event"]["kind"] == kind]
        for kind in ("permission_asked", "permission_answered")
    )
    assert answered[1] - asked[1] >= 0.65
    assert cli_env.inspan("close", run).returncode == 0


def test_what_does_not_fit_of_a_command_is_counted_above_its_answers(page: WebPage, cli_env: CliEnv) -> None:
    lines = "\n".join(f"echo {number}" for number in range(40))
    scenario = f'[[call]]\nrun = """{lines}\nrm -rf build"""\n[[call]]\nsay = "done"\n'
    run = cli_env.detach("claude", scenario, "--ask", "*", "--open")
    page.browser.resize(640, 400)  # As a desk at twice the size.
    page.open(f"/runs/{run}")
    page.see("more lines")
    assert page.browser.evaluate(f"{APPROVE}.getBoundingClientRect().bottom <= innerHeight")
    for _ in range(40):
        page.browser.evaluate("document.querySelector('.subject-more')?.click()")
    page.miss("more lines")
    page.browser.resize(*WIDE)


def test_who_is_no_longer_let_in_is_told_so_at_once(browser: Browser, cli_env: CliEnv) -> None:
    first = ServerProcess(cli_env, "--port", str(choose_port()))
    page = WebPage(browser, first)
    # Without the slow look at everything, which would find it some time later.
    slow = "const real = setInterval; window.setInterval = (act, ms) => (ms >= 20_000 ? 0 : real(act, ms));"
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=slow)
    page.log_in()
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
    assert first.stop()[0] == 0
    page.see("connection lost")
    second = ServerProcess(cli_env, "--port", str(first.port), "--new-token")
    page.see("Open the link of your server")
    browser.open("about:blank")
    second.close()


def test_who_asks_later_stands_below_those_that_may_be_about_to_be_answered(page: WebPage, cli_env: CliEnv) -> None:
    first = cli_env.detach("claude", ASK, "--ask", "*", "--open")
    page.browser.wait_for(ANSWERABLE)
    before = page.browser.evaluate(f"{APPROVE}.getBoundingClientRect().top")
    second = cli_env.detach("claude", ASK, "--ask", "*", "--open")
    page.browser.wait_for("document.querySelectorAll('.need .button-approve').length === 2")
    links = "[...document.querySelectorAll('.need-head')].map(each => each.pathname.split('/').at(-1))"
    assert page.browser.evaluate(links) == [first, second]
    assert page.browser.evaluate(f"{APPROVE}.getBoundingClientRect().top") == before
    page.browser.evaluate("""new MutationObserver(() => {
        const left = [...document.querySelectorAll('.need .button-approve')];
        // It stands where the other one stood: for a moment, no longer, a yes to it does not count.
        if (left.length === 1 && left[0].ariaDisabled === 'true') window.waited = true;
    }).observe(document.body, {subtree: true, childList: true, attributes: true}) ?? true""")
    page.click("Approve")
    cli_env.wait_for_events(first, "permission_answered")
    page.browser.wait_for("window.waited")
    page.click("Approve")
    cli_env.wait_for_events(second, "permission_answered")
    for run in (first, second):
        assert cli_env.inspan("close", run).returncode == 0


def test_however_many_tabs_are_open_each_hears_and_is_heard(page: WebPage, cli_env: CliEnv) -> None:
    run = cli_env.detach("claude", ASK, "--ask", "*", "--open")
    page.see("wants to use")
    for _ in range(8):
        opens = f"(window.tabs ??= []).push(window.open('/runs/{run}', '_blank', 'popup'))"
        page.browser.call("Runtime.evaluate", expression=opens, userGesture=True)  # As by a click.
    page.browser.wait_for(f"window.tabs.length === 8 && window.tabs.every(tab => tab.{ANSWERABLE})")
    page.browser.evaluate(f"window.tabs[0].{ANSWERABLE}.click()")
    page.browser.wait_for("window.tabs.every(tab => tab.document.body.innerText.includes('All done here.'))")
    page.browser.evaluate("window.tabs.forEach(tab => tab.close())")
    assert cli_env.inspan("close", run).returncode == 0


def test_what_is_typed_right_after_the_key_that_denies_is_the_reason_and_approves_nothing(
    page: WebPage, cli_env: CliEnv
) -> None:
    run = cli_env.detach("claude", ASK, "--ask", "*", "--open")
    page.open(f"/runs/{run}")
    page.see("wants to use")
    for key in "da":  # At once, as by somebody who types fast; alone, an "a" approves.
        page.browser.press(key)
    page.browser.type(" plan first")
    page.click("Deny")
    page.see("All done here.")
    answered = next(each for each in cli_env.events(run) if each["kind"] == "permission_answered")
    assert (answered["allowed"], answered.get("reason")) == (False, "a plan first")
    assert not (cli_env.work / "asked.txt").exists()
    assert cli_env.inspan("close", run).returncode == 0


def test_an_open_session_is_talked_to(page: WebPage, cli_env: CliEnv) -> None:
    scenario = '[[call]]\nsay = "first answer"\n[[call]]\nexpect = "and this"\nsay = "second answer"\n'
    run = cli_env.detach("claude", scenario, "--open")
    page.open(f"/runs/{run}")
    page.see("first answer")
    page.browser.evaluate("document.querySelector('textarea').focus()")
    page.browser.type("and this")
    send = "[...document.querySelectorAll('button')].find(each => /^(Send|Queue)/.test(each.innerText))"
    page.browser.wait_for(f"{send} && !{send}.disabled")
    page.browser.evaluate(f"{send}.click()")
    page.see("second answer")
    page.click("Close")
    page.see("completed")


def test_what_is_submitted_twice_at_once_is_said_once(page: WebPage, cli_env: CliEnv) -> None:
    scenario = '[[call]]\nsay = "first answer"\n[[call]]\nexpect = "and this"\nsay = "second answer"\n'
    run = cli_env.detach("claude", scenario, "--open")
    page.open(f"/runs/{run}")
    page.see("first answer")
    page.browser.evaluate("document.querySelector('textarea').focus()")
    page.browser.type("and this")
    page.browser.wait_for("document.querySelector('.composer button[type=submit]:not(:disabled)')")
    page.browser.evaluate("[1, 2].forEach(() => document.querySelector('form.composer').requestSubmit())")
    page.see("second answer")
    page.click("Close")
    cli_env.wait_for_end(run)
    assert [each["text"] for each in cli_env.events(run) if each["kind"] == "message_sent"] == ["do it", "and this"]


def test_a_run_is_stopped(page: WebPage, cli_env: CliEnv) -> None:
    run = start_waiting_run(cli_env)
    page.open(f"/runs/{run}")
    page.see("working")
    page.click("Stop")
    page.see("asked to stop")
    cli_env.wait_for_end(run)
    assert cli_env.events(run)[-1]["outcome"] == "cancelled"


def test_a_page_goes_on_when_its_server_comes_back(browser: Browser, cli_env: CliEnv) -> None:
    first = ServerProcess(cli_env, "--port", str(choose_port()))
    run = start_waiting_run(cli_env)
    page = WebPage(browser, first)
    page.log_in()
    page.open(f"/runs/{run}")
    page.see("working", "touch started")
    assert first.stop()[0] == 0
    page.see("connection lost")
    release_tool(cli_env)
    cli_env.wait_for_end(run)
    second = ServerProcess(cli_env, "--port", str(first.port))
    page.see("completed")
    page.miss("connection lost")
    fact = "[...document.querySelectorAll('dt')].find(each => each.innerText === 'events').nextSibling.innerText"
    shown = page.browser.evaluate(fact)
    assert int(shown) == len(cli_env.events(run))
    browser.open("about:blank")
    second.close()


def test_an_ended_run_is_replayed(page: WebPage, cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", FIX).run_id
    page.open(f"/runs/{run}")
    page.see("it says hello", "completed")
    page.click("Replay")
    page.browser.wait_for("document.querySelector('input[type=range]')")
    page.browser.evaluate("""(() => {
        const slider = document.querySelector('input[type=range]');
        slider.value = 2;
        slider.dispatchEvent(new Event('input', {bubbles: true}));
    })()""")
    page.miss("it says hello")
    page.browser.evaluate("""(() => {
        const slider = document.querySelector('input[type=range]');
        slider.value = slider.max;
        slider.dispatchEvent(new Event('input', {bubbles: true}));
    })()""")
    page.see("it says hello")


def test_changes_and_cost_of_a_run_have_their_tabs(page: WebPage, cli_env: CliEnv) -> None:
    make_repository(cli_env)
    run = cli_env.run("claude", FIX).run_id
    page.open(f"/runs/{run}/diff")
    page.see("new.txt", "hello")
    page.open(f"/runs/{run}/cost")
    page.see("not paid")
    cells = "[...document.querySelectorAll('.numbers tbody tr')].map(row => row.lastChild.innerText)"
    page.browser.wait_for(f"{cells}.length")
    assert set(page.browser.evaluate(cells)) == {"not paid"}


def test_an_ended_run_has_one_duration_and_commands_that_can_be_typed(page: WebPage, cli_env: CliEnv) -> None:
    make_repository(cli_env)
    run = run_to_end(cli_env, FIX, agent="codex")
    took = "document.querySelector('.row-time .num').innerText"
    page.open("/")
    page.browser.wait_for("document.querySelector('.row-time .num')")
    listed = page.browser.evaluate(took)
    page.open(f"/runs/{run}")
    page.see("completed", f"in {listed}")
    assert page.browser.evaluate("document.querySelector('.run-clock').innerText") == listed
    page.miss("Screen")
    name = json.loads(cli_env.inspan("show", run, "--json").stdout)["short"]
    commands = set(page.browser.evaluate("[...document.querySelectorAll('.command code')].map(each => each.innerText)"))
    assert commands == {f"inspan {words}" for words in (f"diff {name}", f'resume {name} "…"', f"logs {name}")}
    for command in commands:
        done = cli_env.inspan(*shlex.split(command)[1:])
        assert done.returncode == 0 or ("resume" in command and "prompt" not in done.stderr), done.stderr


def test_the_keyboard_alone_leads_everywhere(page: WebPage, cli_env: CliEnv) -> None:
    for _ in range(2):
        run_to_end(cli_env, FIX)
    page.open("/")
    page.browser.wait_for("document.body.innerText.match(/do it/g)?.length === 2")
    page.press_until("j", "document.activeElement.id.startsWith('run-')")
    first = page.browser.evaluate("document.activeElement.id")
    page.press_until("j", f"!['', '{first}'].includes(document.activeElement.id)")
    page.browser.press("Enter")
    page.browser.wait_for("location.pathname.startsWith('/runs/')")
    page.see("it says hello")
    page.press_until("g c", "location.pathname === '/cost'")
    page.browser.press("?")
    page.browser.wait_for("document.querySelector('dialog[open]')")
    page.browser.press("Escape")
    page.browser.wait_for("!document.querySelector('dialog[open]')")
    page.press_until("g r", "location.pathname === '/'")
    page.press_until("/", "document.activeElement.tagName === 'INPUT'")
    page.browser.type("nothing like it")
    page.miss("do it")


def test_two_runs_are_compared_side_by_side(page: WebPage, cli_env: CliEnv) -> None:
    first, second = (run_to_end(cli_env, FIX, agent=agent) for agent in ("claude", "codex"))
    page.open(f"/compare?a={first}&b={second}")
    page.see("claude", "codex", "completed")


def test_a_run_is_started_and_what_is_wrong_stands_at_its_field(page: WebPage, cli_env: CliEnv) -> None:
    path = cli_env.work / "s.toml"
    path.write_text('[[call]]\nsay = "started from the page"\n')
    page.open("/start")
    page.fill("What is to be done", "say it")
    page.fill("Folder", "/etc")
    page.click("Start")
    page.browser.wait_for("document.querySelector('.field-problem[role=alert]')")
    assert "/etc" in page.browser.evaluate("document.querySelector('.field-problem[role=alert]').innerText")
    page.fill("Folder", str(cli_env.work))
    page.browser.evaluate("document.querySelector('details:not([open]) > summary')?.click()")
    page.fill("Who answers the model calls", f"script:{path}")
    page.click("Start")
    page.browser.wait_for("location.pathname.startsWith('/runs/')")
    page.see("started from the page", "completed")


def test_loops_and_blueprints_show_their_parts(page: WebPage, cli_env: CliEnv) -> None:
    model = cli_env.scenario(FIX)
    common = ("-a", "scripted", "--profile", "clean", "--model-from", model, "-q")
    assert cli_env.inspan("loop", "do it", "--check", "test -e new.txt", *common).returncode == 0
    loop = json.loads(cli_env.inspan("ps", "-a", "--json").stdout)["runs"]
    work = next(each["run_id"] for each in loop if each["work"] == "loop")
    page.open(f"/runs/{work}")
    page.see("attempt 1", "test -e new.txt")
    assert "inspan resume" not in page.words
    (cli_env.work / "new.txt").unlink()
    done = cli_env.inspan("blueprint", "run", "fix-failing-test", "-i", "check=test -e new.txt", *common)
    assert done.returncode == 0, done.stderr
    runs = json.loads(cli_env.inspan("ps", "-a", "--json").stdout)["runs"]
    blueprint = next(each["run_id"] for each in runs if each["work"] == "blueprint")
    page.open(f"/runs/{blueprint}/graph")
    page.browser.wait_for("document.querySelector('svg.graph')")


@pytest.mark.parametrize(
    "path", ["/", "/cost", "/start", "/runs/{run}", "/runs/{run}/diff", "/compare?a={run}&b={run}"]
)
def test_nothing_is_wider_than_a_phone(page: WebPage, cli_env: CliEnv, path: str) -> None:
    run = cli_env.run("claude", FIX).run_id
    page.browser.resize(*PHONE)
    page.open(path.format(run=run))
    page.browser.wait_for("document.querySelector('main')?.innerText.length > 20")
    assert page.browser.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    page.browser.resize(*WIDE)


def test_on_a_phone_an_answer_is_within_reach_of_a_thumb(page: WebPage, cli_env: CliEnv) -> None:
    run = cli_env.detach("claude", ASK, "--ask", "*", "--open")
    page.browser.resize(*PHONE)
    page.open(f"/runs/{run}")
    page.see("wants to use")
    page.browser.wait_for("""(() => {
        const place = [...document.querySelectorAll('button')].find(each => each.innerText.startsWith('Approve'))
            ?.getBoundingClientRect();
        return place && place.bottom <= innerHeight && place.top > innerHeight / 2 && place.height >= 40;
    })()""")
    page.click("Approve")
    page.see("All done here.")
    page.browser.resize(*WIDE)
    assert cli_env.inspan("close", run).returncode == 0


def test_what_an_agent_says_is_shown_and_never_obeyed(page: WebPage, cli_env: CliEnv) -> None:
    run = cli_env.run("scripted", HOSTILE).run_id
    page.open(f"/runs/{run}")
    page.see("<script>", "evil")
    assert page.browser.evaluate("window.hacked ?? 0") == 0
    links = "[...document.querySelectorAll('main a[href]')].map(each => [each.protocol, each.rel])"
    outside = [each for each in page.browser.evaluate(links) if not each[0].startswith("http:")]
    assert outside == [["https:", outside[0][1]]] and "noopener" in outside[0][1]
    assert "\u202e" not in page.words and "\x1b" not in page.words


def test_ten_thousand_events_are_shown_a_screen_at_a_time(page: WebPage, cli_env: CliEnv) -> None:
    run = LivingRun(cli_env)
    run.say(*(f"event number {number}" for number in range(10_000)))
    page.open(f"/runs/{run.run_id}")
    page.see("event number 9999")
    assert page.browser.evaluate("document.querySelectorAll('*').length") < 3000
    page.press_until("g g", "document.body.innerText.includes('event number 0')")
    run.close()
