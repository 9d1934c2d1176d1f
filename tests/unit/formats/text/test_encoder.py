"""Encoded token ids, compared with the slow encoder and the parser of tf.train.Example."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stoker.formats.containers.messages.wire import varint
from stoker.formats.text.encoder import encode_varints


@given(hnp.arrays(np.int32, st.integers(0, 40), elements=st.integers(0, 2**31 - 1)))
def test_varints_are_those_of_the_slow_encoder(ids: np.ndarray) -> None:
    data, places = encode_varints(ids)
    expected = [varint(int(number)) for number in ids]
    assert data == b"".join(expected)
    assert np.diff(places).tolist() == [len(one) for one in expected]


def test_varints_grow_where_seven_bits_are_full() -> None:
    ids = np.array(
        [1 << bits for bits in (0, 7, 14, 21, 28)] + [(1 << b) - 1 for b in (7, 14, 21, 28)], np.int32
    )
    assert np.diff(encode_varints(ids)[1]).tolist() == [1, 2, 3, 4, 5, 1, 2, 3, 4]
