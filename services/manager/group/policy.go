package group

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/algo/cluster"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

// MaxKeep is how long agents can be asked to hold an object.
const MaxKeep = 24 * time.Hour

// withDefaults returns the policy with all decided that was left open, so that it says what a group will do.
func withDefaults(policy *groupv1.Policy) *groupv1.Policy {
	decided := proto.CloneOf(policy)
	if decided == nil {
		decided = new(groupv1.Policy)
	}
	if decided.GetControlMode() == groupv1.ControlMode_CONTROL_MODE_UNSPECIFIED {
		decided.ControlMode = groupv1.ControlMode_CONTROL_MODE_HOP
	}
	if decided.GetAckLevel() == groupv1.AckLevel_ACK_LEVEL_UNSPECIFIED {
		decided.AckLevel = groupv1.AckLevel_ACK_LEVEL_DURABLE
	}
	if decided.GetDataPlane() == groupv1.DataPlane_DATA_PLANE_UNSPECIFIED {
		decided.DataPlane = groupv1.DataPlane_DATA_PLANE_TLS
	}
	if decided.GetClusterThreshold().AsDuration() == 0 {
		decided.ClusterThreshold = durationpb.New(cluster.DefaultThreshold)
	}
	if decided.SlowMember == nil {
		decided.SlowMember = new(groupv1.SlowMemberPolicy)
	}
	if decided.SlowMember.GetAction() == groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_UNSPECIFIED {
		decided.SlowMember.Action = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH
		if decided.GetControlMode() == groupv1.ControlMode_CONTROL_MODE_END_TO_END {
			decided.SlowMember.Action = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE
		}
	}
	return decided
}

func checkPolicy(problems *ledger.Checks, policy *groupv1.Policy) {
	seen := make(map[groupv1.Role]bool)
	for _, role := range policy.GetAllowedRoles() {
		checkEnum(problems, "policy.allowed_roles", role)
		problems.That(!seen[role], "policy.allowed_roles", "names %v twice", role)
		seen[role] = true
	}
	checkEnum(problems, "policy.control_mode", policy.GetControlMode())
	checkEnum(problems, "policy.ack_level", policy.GetAckLevel())
	checkEnum(problems, "policy.data_plane", policy.GetDataPlane())
	if policy.GetCongestion() != groupv1.Congestion_CONGESTION_UNSPECIFIED { // if it is unspecified, it is left to each machine
		checkEnum(problems, "policy.congestion", policy.GetCongestion())
	}
	checkEnum(problems, "policy.slow_member.action", policy.GetSlowMember().GetAction())
	checkSpan(problems, "policy.slow_member.lag_time", policy.GetSlowMember().GetLagTime())
	checkSpan(problems, "policy.latency_bound", policy.GetLatencyBound())
	checkSpan(problems, "policy.cluster_threshold", policy.GetClusterThreshold())
	checkSpan(problems, "policy.deadline", policy.GetDeadline())
	checkSpan(problems, "policy.keep", policy.GetKeep())
	problems.That(policy.GetKeep().AsDuration() <= MaxKeep, "policy.keep", "is %v: want %v at most", policy.GetKeep().AsDuration(), MaxKeep)
	problems.Rate("policy.limits.max_bytes_per_second", policy.GetLimits().GetMaxBytesPerSecond())
}

// touchesSlow reports whether an update is about slow members: only then is their policy checked.
func touchesSlow(paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(path string) bool { return path == "slow_member" || strings.HasPrefix(path, "slow_member.") })
}

// CheckSlow refuses limits for slow members that would have no effect: of those that are asked for in the field, given what happens to slow
// members when what was decided before is added.
func CheckSlow(problems *ledger.Checks, field string, asked, happens *groupv1.SlowMemberPolicy) {
	paces := happens.GetAction() == groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE
	evicts := happens.GetAction() == groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT
	lags := happens.GetLagBytes() > 0 || happens.GetLagTime().AsDuration() > 0
	problems.That(paces || asked.GetFloorBytesPerSecond() == 0, field+".floor_bytes_per_second", "is for pace, which is not what happens to slow members here")
	problems.That(evicts || asked.GetLagBytes() == 0, field+".lag_bytes", "is for evict, which is not what happens to slow members here")
	problems.That(evicts || asked.GetLagTime().AsDuration() == 0, field+".lag_time", "is for evict, which is not what happens to slow members here")
	problems.That(!evicts || lags || asked.GetAction() != happens.GetAction(), field, "evicts nobody without %[1]s.lag_bytes or %[1]s.lag_time", field)
}

func checkSlow(problems *ledger.Checks, slow *groupv1.SlowMemberPolicy) {
	CheckSlow(problems, "policy.slow_member", slow, slow)
}

// fitSlow drops the limits of an earlier way of dealing with slow members, except for those that an update names.
func fitSlow(slow *groupv1.SlowMemberPolicy, paths []string) {
	drops := func(field string) bool {
		return !slices.Contains(paths, "slow_member") && !slices.Contains(paths, "slow_member."+field)
	}
	if slow.GetAction() != groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE && drops("floor_bytes_per_second") {
		slow.FloorBytesPerSecond = 0
	}
	if slow.GetAction() == groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT {
		return
	}
	if drops("lag_bytes") {
		slow.LagBytes = 0
	}
	if drops("lag_time") {
		slow.LagTime = nil
	}
}

// checkEnum refuses values that this version does not know, and zero.
func checkEnum(problems *ledger.Checks, field string, value protoreflect.Enum) {
	number := value.Number()
	known := value.Descriptor().Values().ByNumber(number) != nil
	problems.That(known && number != 0, field, "%d is no value of %s", number, value.Descriptor().Name())
}

func checkSpan(problems *ledger.Checks, field string, span *durationpb.Duration) {
	if span != nil {
		problems.That(span.CheckValid() == nil && span.AsDuration() >= 0, field, "is no span of time")
	}
}

// merge returns the policy with the fields at the paths taken from the other; without paths, it returns the other.
func merge(policy, other *groupv1.Policy, paths []string) (*groupv1.Policy, error) {
	if other == nil {
		other = new(groupv1.Policy)
	}
	if len(paths) == 0 {
		return other, nil
	}
	merged := proto.CloneOf(policy)
	var problems ledger.Checks
	for _, path := range paths {
		problems.No("update_mask", copyField(merged.ProtoReflect(), other.ProtoReflect(), strings.Split(path, ".")))
	}
	return merged, problems.Err()
}

// copyField copies the field at the path, or clears it where the source has none.
func copyField(to, from protoreflect.Message, path []string) error {
	field := to.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	if field == nil {
		return fmt.Errorf("%s has no field %q", to.Descriptor().Name(), path[0])
	}
	if len(path) > 1 {
		if field.Message() == nil || field.IsList() {
			return fmt.Errorf("%s.%s has no fields", to.Descriptor().Name(), path[0])
		}
		return copyField(to.Mutable(field).Message(), from.Get(field).Message(), path[1:])
	}
	if from.Has(field) {
		to.Set(field, from.Get(field))
	} else {
		to.Clear(field)
	}
	return nil
}
