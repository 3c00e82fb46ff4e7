"""The construct engine checks some of the fuzzer's cases; the other engines check all of them."""

from __future__ import annotations

from tools.fuzz_cases import Case, engines_of


def test_construct_checks_a_part_of_the_cases() -> None:
    engines = [engines_of(Case("", bytes([index % 256, index // 256])), None) for index in range(2000)]
    assert 10 < sum("construct" in each for each in engines) < 100
    assert all("python" in each for each in engines)


def test_construct_is_left_out_where_it_has_no_part() -> None:
    for index in range(200):
        assert engines_of(Case("", bytes([index])), None, with_construct=False) == ["python"]
