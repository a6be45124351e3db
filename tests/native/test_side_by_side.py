"""Several kernels packages in one process."""

from __future__ import annotations

import pytest

from support.compiled import compiled_provider
from support.native_package import build_tree, open_package


@pytest.mark.native
def test_two_packages_load_side_by_side_and_keep_their_classes_apart() -> None:
    build_tree()
    first, second = compiled_provider().native, open_package().native
    pools = [module.make_pool([("pool.threads", "1")]) for module in (first, second)]
    assert [pool.threads for pool in pools] == [1, 1]
    assert type(pools[0]) is not type(pools[1])
    with pytest.raises(TypeError):
        first.linear(pools[1], None, 0, 0, 0)
    for pool in pools:
        pool.close()
