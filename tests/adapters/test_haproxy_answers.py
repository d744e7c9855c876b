"""What HAProxy says becomes values, as far as it says it."""

from __future__ import annotations

import pytest

from rankmuster.adapters.haproxy_answers import NoServer, NotUnderstood, complaint, read_stat, read_state

STATE = """1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_time_since_last_change
3 b 1 s1 127.0.0.1 2 0 30 100 0
3 b 2 s2 127.0.0.1 0 5 50 50 1
3 b 3 s3 127.0.0.1 2 8 50 50 1
3 b 4 s4 127.0.0.1 0 32 1 1 1
3 bb 1 s1 127.0.0.1 2 16 1 1 1

"""

STAT = """# pxname,svname,qcur,qmax,scur,smax,slim,stot,status,weight,cookie,
b,s1,2,0,3,1,,1,no check,100,,
b,s2,,0,0,0,,0,MAINT,50,c2,
b,BACKEND,9,0,9,1,999,1,UP,100,,

"""


def test_states_are_read_by_name() -> None:
    first = read_state(STATE, "b", "s1")
    assert (first.weight, first.initial, first.maint, first.drain, first.up) == (30, 100, False, False, True)
    assert read_state(STATE, "b", "s2").maint
    assert read_state(STATE, "b", "s3").drain
    assert read_state(STATE, "b", "s4").maint
    assert read_state(STATE, "bb", "s1").drain


def test_counters_are_of_the_server_alone() -> None:
    first, second = read_stat(STAT, "b", "s1"), read_stat(STAT, "b", "s2")
    assert (first.running, first.queued, first.status, first.cookie) == (3, 2, "no check", False)
    assert (second.running, second.queued, second.status, second.cookie) == (0, 0, "MAINT", True)


@pytest.mark.parametrize("text", ["Can't find backend.\n", "No such backend.\n", "\nNo such server.\n\n"])
def test_a_server_that_it_does_not_know_is_told_apart(text: str) -> None:
    with pytest.raises(NoServer):
        read_state(text, "b", "s1")


def test_one_that_is_not_in_the_answer_is_not_known_either() -> None:
    with pytest.raises(NoServer):
        read_state(STATE, "b", "s9")
    with pytest.raises(NoServer):
        read_stat(STAT, "b", "s9")


@pytest.mark.parametrize("text", ["", "Permission denied", "1\n", "1\n# be_name srv_name\n", "Unknown command: 'show'"])
def test_anything_else_is_no_answer(text: str) -> None:
    with pytest.raises(NotUnderstood):
        read_state(text, "b", "s1")
    with pytest.raises(NotUnderstood):
        read_stat(text, "b", "s1")


def test_numbers_that_are_none_are_no_answer() -> None:
    with pytest.raises(NotUnderstood):
        read_state(STATE.replace(" 2 0 30 100 ", " 2 x 30 100 "), "b", "s1")
    with pytest.raises(NotUnderstood):
        read_stat(STAT.replace("b,s1,2,0,3", "b,s1,2,0,many"), "b", "s1")


def test_a_change_is_carried_out_where_nothing_is_said() -> None:
    assert complaint("\n") is None
    assert complaint("No such server.\n\n") == "No such server."
    assert complaint("\x1b[2Jgone\nmore") == "gone"
