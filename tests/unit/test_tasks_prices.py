"""Usage becomes priced lines in exact decimals; an unknown price is never a silent zero."""

from decimal import Decimal

from engine import PriceSettings
from tasks.prices import total_cost_usd, usage_lines

FULL = PriceSettings(
    id="gold",
    input_token_usd=Decimal("0.0000011"),
    output_token_usd=Decimal("0.0000033"),
    request_usd=Decimal("0.001"),
)


def lines(price: PriceSettings | None, *, billable: bool = True, output_tokens: int = 3) -> list[Decimal | None]:
    found = usage_lines(price, "m", "a", 7, output_tokens, estimated=False, billable=billable)
    return [line.cost_usd for line in found]


def test_every_priced_quantity_is_a_line_with_its_exact_cost() -> None:
    found = usage_lines(FULL, "chat", "a", 7, 3, estimated=True, billable=True)
    assert [(line.sku, int(line.quantity), line.unit, line.cost_usd, line.estimated) for line in found] == [
        ("input_tokens", 7, "Tokens", Decimal("0.0000077"), True),
        ("output_tokens", 3, "Tokens", Decimal("0.0000099"), True),
        ("requests", 1, "Requests", Decimal("0.001"), False),
    ]
    assert {(line.model, line.replica, line.price_id, line.billable) for line in found} == {("chat", "a", "gold", True)}
    assert total_cost_usd(found) == Decimal("0.0010176")


def test_without_a_price_tokens_are_counted_and_the_cost_is_unknown() -> None:
    found = usage_lines(None, "m", "a", 7, 3, estimated=False, billable=True)
    assert [(line.sku, line.cost_usd, line.price_id) for line in found] == [
        ("input_tokens", None, None),
        ("output_tokens", None, None),
    ]
    assert total_cost_usd(found) is None


def test_one_unknown_price_makes_the_sum_unknown() -> None:
    known = usage_lines(FULL, "m", "a", 7, 3, estimated=False, billable=True)
    unknown = usage_lines(None, "n", "a", 7, 3, estimated=False, billable=True)
    assert total_cost_usd([*known, *unknown]) is None


def test_a_part_that_the_price_does_not_name_is_not_charged_for() -> None:
    per_request = PriceSettings(id="flat", request_usd=Decimal("0.5"))
    found = usage_lines(per_request, "m", "a", 7, 3, estimated=False, billable=True)
    assert [line.cost_usd for line in found] == [None, None, Decimal("0.5")]
    assert total_cost_usd(found) == Decimal("0.5")


def test_a_quantity_of_zero_is_no_line() -> None:
    assert lines(FULL, output_tokens=0) == [Decimal("0.0000077"), Decimal("0.001")]


def test_what_is_not_billable_is_not_in_the_sum() -> None:
    failed = usage_lines(FULL, "m", "a", 7, 3, estimated=False, billable=False)
    served = usage_lines(FULL, "m", "b", 7, 3, estimated=False, billable=True)
    assert total_cost_usd(failed) is None
    assert total_cost_usd([*failed, *served]) == total_cost_usd(served)


def test_a_price_of_zero_is_a_known_cost_of_zero() -> None:
    free = PriceSettings(id="free", input_token_usd=Decimal(0), output_token_usd=Decimal(0))
    assert total_cost_usd(usage_lines(free, "m", "a", 7, 3, estimated=False, billable=True)) == 0
