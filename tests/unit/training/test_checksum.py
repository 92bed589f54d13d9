"""Checksums: values count, memory does not."""

import pytest
import torch

from multirel.training._checksum import checksum_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_values_count_and_their_place_in_memory_does_not(dtype):
    values = torch.tensor([[1, 0], [1, 1], [0, 0]]).to(dtype)
    assert checksum_of([values]) == checksum_of([values.t().contiguous().t()])
    assert checksum_of([values[:1, :1]]) == checksum_of([values[:1, :1].clone()])
    assert checksum_of([values]) != checksum_of([1 - values.int()])


def test_empty_and_single_values_have_a_checksum():
    assert checksum_of([torch.zeros(0)]) == checksum_of([]) == 0
    assert checksum_of([torch.tensor(2.0)]) == checksum_of([torch.tensor([2.0])])


def test_the_order_counts():
    one, other = torch.ones(2), torch.zeros(2)
    assert checksum_of([one, other]) != checksum_of([other, one])
