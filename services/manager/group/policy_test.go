package group

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

const (
	hop      = groupv1.ControlMode_CONTROL_MODE_HOP
	endToEnd = groupv1.ControlMode_CONTROL_MODE_END_TO_END
	durable  = groupv1.AckLevel_ACK_LEVEL_DURABLE
	received = groupv1.AckLevel_ACK_LEVEL_RECEIVED
	detach   = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH
	pace     = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE
	evict    = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT
	secured  = groupv1.DataPlane_DATA_PLANE_TLS
	plain    = groupv1.DataPlane_DATA_PLANE_PLAINTEXT
)

func TestDefaultsAreDecided(t *testing.T) {
	near, far := durationpb.New(2*time.Millisecond), durationpb.New(time.Second)
	for name, c := range map[string]struct{ asked, want *groupv1.Policy }{
		"nothing": {nil, &groupv1.Policy{
			ControlMode: hop, AckLevel: durable, SlowMember: &groupv1.SlowMemberPolicy{Action: detach}, DataPlane: secured, ClusterThreshold: near,
		}},
		"end-to-end paces": {&groupv1.Policy{ControlMode: endToEnd}, &groupv1.Policy{
			ControlMode: endToEnd, AckLevel: durable, SlowMember: &groupv1.SlowMemberPolicy{Action: pace}, DataPlane: secured, ClusterThreshold: near,
		}},
		"what is named stays": {
			&groupv1.Policy{AckLevel: received, SlowMember: &groupv1.SlowMemberPolicy{Action: evict, LagBytes: 7}, DataPlane: plain, ClusterThreshold: far},
			&groupv1.Policy{ControlMode: hop, AckLevel: received, SlowMember: &groupv1.SlowMemberPolicy{Action: evict, LagBytes: 7}, DataPlane: plain, ClusterThreshold: far},
		},
	} {
		if diff := cmp.Diff(c.want, withDefaults(c.asked), protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMerge(t *testing.T) {
	current := &groupv1.Policy{
		ControlMode: hop, AckLevel: durable, SlowMember: &groupv1.SlowMemberPolicy{Action: evict, LagBytes: 7},
		LatencyBound: durationpb.New(time.Second), Limits: &groupv1.Limits{MaxMembers: 3},
	}
	asked := &groupv1.Policy{AckLevel: received, SlowMember: &groupv1.SlowMemberPolicy{Action: pace}, Limits: &groupv1.Limits{MaxMembers: 9, MaxDeliveries: 2}}
	for name, c := range map[string]struct {
		paths []string
		want  *groupv1.Policy
	}{
		"one field": {[]string{"ack_level"}, &groupv1.Policy{
			ControlMode: hop, AckLevel: received, SlowMember: &groupv1.SlowMemberPolicy{Action: evict, LagBytes: 7},
			LatencyBound: durationpb.New(time.Second), Limits: &groupv1.Limits{MaxMembers: 3},
		}},
		"a field of a field": {[]string{"slow_member.action", "limits.max_deliveries"}, &groupv1.Policy{
			ControlMode: hop, AckLevel: durable, SlowMember: &groupv1.SlowMemberPolicy{Action: pace, LagBytes: 7},
			LatencyBound: durationpb.New(time.Second), Limits: &groupv1.Limits{MaxMembers: 3, MaxDeliveries: 2},
		}},
		"a field that is empty clears": {[]string{"latency_bound"}, &groupv1.Policy{
			ControlMode: hop, AckLevel: durable, SlowMember: &groupv1.SlowMemberPolicy{Action: evict, LagBytes: 7}, Limits: &groupv1.Limits{MaxMembers: 3},
		}},
		"no path takes all": {nil, asked},
	} {
		merged, err := merge(current, asked, c.paths)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, merged, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, path := range []string{"nonsense", "ack_level.x", "limits.nonsense", "allowed_roles.x", "", "limits."} {
		var invalid *ledger.Invalid
		if _, err := merge(current, asked, []string{path}); !errors.As(err, &invalid) {
			t.Errorf("path %q: %v, want it refused", path, err)
		}
	}
}

func TestBadPoliciesAreRefused(t *testing.T) {
	for field, policy := range map[string]*groupv1.Policy{
		"policy.allowed_roles":               {AllowedRoles: []groupv1.Role{groupv1.Role_ROLE_SEND, groupv1.Role_ROLE_SEND}},
		"policy.control_mode":                {ControlMode: 99},
		"policy.ack_level":                   {AckLevel: -1},
		"policy.slow_member.lag_time":        {SlowMember: &groupv1.SlowMemberPolicy{LagTime: durationpb.New(-time.Second)}},
		"policy.slow_member.lag_bytes":       {SlowMember: &groupv1.SlowMemberPolicy{LagBytes: 5}},
		"slow_member.floor_bytes_per_second": {SlowMember: &groupv1.SlowMemberPolicy{FloorBytesPerSecond: 5, Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT, LagBytes: 5}},
		"policy.slow_member: evicts nobody without policy.slow_member.lag_bytes or policy.slow_member.lag_time": {SlowMember: &groupv1.SlowMemberPolicy{Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT}},
		"max_bytes_per_second": {Limits: &groupv1.Limits{MaxBytesPerSecond: 1000}},
		"policy.deadline":      {Deadline: durationpb.New(-time.Second)},
		"policy.keep":          {Keep: durationpb.New(-time.Second)},
		"24h0m0s at most":      {Keep: durationpb.New(MaxKeep + time.Second)},
		"policy.latency_bound": {LatencyBound: &durationpb.Duration{Seconds: 1 << 62}},
	} {
		var problems ledger.Checks
		checkPolicy(&problems, withDefaults(policy))
		checkSlow(&problems, withDefaults(policy).GetSlowMember())
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	var problems ledger.Checks
	checkPolicy(&problems, withDefaults(nil))
	if err := problems.Err(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

// Another way of dealing with slow members takes over no limits of the one before, except for those that are given with it.
func TestLimitsFitWhatHappensToSlowMembers(t *testing.T) {
	lags := func(action groupv1.SlowMemberAction) *groupv1.SlowMemberPolicy {
		return &groupv1.SlowMemberPolicy{Action: action, FloorBytesPerSecond: 1, LagBytes: 2, LagTime: durationpb.New(3)}
	}
	const detach, pace, evict = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH, groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE, groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT
	for _, tt := range []struct {
		action groupv1.SlowMemberAction
		paths  []string
		want   *groupv1.SlowMemberPolicy
	}{
		{detach, nil, &groupv1.SlowMemberPolicy{Action: detach}},
		{pace, nil, &groupv1.SlowMemberPolicy{Action: pace, FloorBytesPerSecond: 1}},
		{evict, nil, &groupv1.SlowMemberPolicy{Action: evict, LagBytes: 2, LagTime: durationpb.New(3)}},
		{detach, []string{"slow_member.action", "slow_member.lag_bytes"}, &groupv1.SlowMemberPolicy{Action: detach, LagBytes: 2}},
		{pace, []string{"slow_member"}, lags(pace)},
	} {
		slow := lags(tt.action)
		fitSlow(slow, tt.paths)
		if diff := cmp.Diff(tt.want, slow, protocmp.Transform()); diff != "" {
			t.Errorf("%v with %v (-want +got):\n%s", tt.action, tt.paths, diff)
		}
	}
}
