"""The settings as the policies take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deermem.config import Settings
from deermem.policy.eviction import CapacityRules
from deermem.policy.hybrid import HybridRules

if TYPE_CHECKING:
    from deermem.policy.consolidation import ConsolidationRules
    from deermem.policy.staleness import StalenessRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What every write goes by. `audit_entries` is how many decisions of the cap are kept for a bucket, 0 for none."""

    capacity: CapacityRules = field(default_factory=CapacityRules)
    audit_entries: int = 200


def rules_of(settings: Settings) -> Rules:
    """The cap and its policy."""
    hybrid = HybridRules(
        confidence_weight=settings.eviction_confidence_weight,
        confirmation_weight=settings.eviction_confirmation_weight,
        access_weight=settings.eviction_access_weight,
        confirmation_half_life_days=settings.eviction_confirmation_half_life_days,
        access_half_life_days=settings.eviction_access_half_life_days,
        correction_reserved_fraction=settings.eviction_correction_reserved_fraction,
        correction_reserved_max=settings.eviction_correction_reserved_max,
    )
    capacity = CapacityRules(
        max_facts=settings.max_facts,
        policy=settings.fact_eviction_policy,
        shadow=settings.fact_eviction_shadow_enabled,
        hybrid=hybrid,
    )
    return Rules(capacity=capacity, audit_entries=settings.eviction_audit_max_entries)


def staleness_rules(settings: Settings) -> StalenessRules:
    """The review of old facts."""
    from deermem.policy.staleness import StalenessRules

    return StalenessRules(
        enabled=settings.staleness_review_enabled,
        age_days=settings.staleness_age_days,
        min_candidates=settings.staleness_min_candidates,
        max_removals_per_cycle=settings.staleness_max_removals_per_cycle,
        protected_categories=settings.staleness_protected_categories,
        max_lifetime_multiplier=settings.staleness_max_lifetime_multiplier,
        max_extension_days=settings.staleness_max_extension_days,
    )


def consolidation_rules(settings: Settings) -> ConsolidationRules:
    """The merging of facts; what is not reviewed for age is not merged either."""
    from deermem.policy.consolidation import ConsolidationRules

    return ConsolidationRules(
        enabled=settings.consolidation_enabled,
        min_facts=settings.consolidation_min_facts,
        max_groups_per_cycle=settings.consolidation_max_groups_per_cycle,
        max_sources=settings.consolidation_max_sources,
        protected_categories=settings.staleness_protected_categories,
    )
