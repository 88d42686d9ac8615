"""Ten thousand customers, read, filtered and written to through real servers, by somebody who sees none of them."""

import pytest

from benchmarks.privacy.mails import measure


@pytest.mark.behaviour("privacy.mails")
async def test_every_mail_is_right_and_the_client_saw_no_private_value() -> None:
    """The mail server gets real names and addresses; everything the client received has tokens in their place."""
    figures = await measure(1)

    assert figures["rows"] == 10_000
    assert figures["mails"] > 100
    assert figures["wrong_mails"] == 0
    assert figures["private_values_received"] == 0
    assert figures["private_values_received_with_off"] > 0  # else nothing would be proven
