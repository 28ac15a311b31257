package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/version"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

type managerService struct {
	groupv1.UnimplementedManagerServiceServer
	server *Server
}

// GetStatus answers from what this manager sees, and what the leader says if it does, without asking the store: it must work when little else
// does.
func (m *managerService) GetStatus(ctx context.Context, _ *groupv1.GetStatusRequest) (*groupv1.GetStatusResponse, error) {
	leader, counts := m.server.Leading.Leader(), m.server.View.Count()
	response := &groupv1.GetStatusResponse{
		Name: m.server.Name, Version: version.String(),
		Leader: leader.Name, Term: leader.Term, Revision: uint64(m.server.View.Revision()),
		Groups: uint32(counts.Groups), Members: uint32(counts.Members),
		AgentsOnline: uint32(counts.AgentsOnline), AgentsOffline: uint32(counts.AgentsOffline),
		StartTime: timestamppb.New(m.server.Started), TrustDomain: m.server.TrustDomain,
	}
	said := m.askLeader(ctx)
	response.Absent, response.Away = m.missing(ctx, counts, said)
	response.ReadOnlyReason, response.OwnStoreReason = m.refusal(leader, said)
	managers := m.server.managers()
	online, offline := countManagers(managers)
	response.ManagersOnline, response.ManagersOffline = uint32(online), uint32(offline)
	if callerOf(ctx).Role == identity.Operator { // others are not told who there is
		response.Managers = managers
	}
	return response, nil
}

// refusal says why writes are refused: each manager knows the disk of its own part of the store, and the leader alone writes. If writes are
// accepted, own says why they would not be if this manager led.
func (m *managerService) refusal(leader store.Leader, said *groupv1.GetStatusResponse) (all, own string) {
	if err := m.server.WriteRefusal(); err != nil {
		own = err.Error()
	}
	switch all = said.GetReadOnlyReason(); {
	case said != nil && all == "":
		return "", own
	case said == nil && own != "":
		return own, ""
	case said == nil && leader.Name == "":
		return "no manager leads at the moment: writes go on by themselves when one does", ""
	}
	return all, ""
}

// leaderPatience is how long the leader's answer is waited for: what is known without it has to be told, too.
const leaderPatience = 2 * time.Second

// askLeader returns the leader's own status; nil if this manager leads, or the leader does not answer.
func (m *managerService) askLeader(ctx context.Context) *groupv1.GetStatusResponse {
	if _, leads := m.server.away(); leads {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaderPatience)
	defer cancel()
	answer, err := m.server.forwardUnary(ctx, groupv1.ManagerService_GetStatus_FullMethodName, new(groupv1.GetStatusRequest))
	if said, is := answer.(*groupv1.GetStatusResponse); err == nil && is && said.GetLeader() == said.GetName() { // or it has just ceased to lead
		return said
	}
	return nil
}

// missing says which services should be here and are not, and which peers have registered and are silent. Only the leader knows that; if it
// does not answer, all that have registered count as here.
func (m *managerService) missing(ctx context.Context, counts view.Counts, said *groupv1.GetStatusResponse) ([]string, []*groupv1.Away) {
	if said != nil {
		return said.GetAbsent(), said.GetAway()
	}
	away, _ := m.server.away()
	missed := absent(m.server.ServiceAccounts.Services(), counts, away)
	if callerOf(ctx).Role != identity.Operator {
		return missed, nil
	}
	return missed, away
}

// managers returns the managers that are here or missed, by name, as the store has them. This manager is here, whatever the store says.
func (s *Server) managers() (all []*groupv1.Manager) {
	known := false
	for _, record := range s.View.Managers() {
		self := record.Name() == s.Name
		if self && record.IsAway() {
			continue
		}
		all = append(all, record.GetManager())
		known = known || self
	}
	if !known {
		all = append(all, &groupv1.Manager{Name: s.Name, Address: s.Address, Version: version.String(), StartTime: timestamppb.New(s.Started)})
		slices.SortFunc(all, func(a, b *groupv1.Manager) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	return all
}

// CountManagers returns how many managers are here, and how many are missed.
func (s *Server) CountManagers() (online, offline int) { return countManagers(s.managers()) }

func countManagers(all []*groupv1.Manager) (online, offline int) {
	for _, manager := range all {
		if manager.GetAwayTime() != nil {
			offline++
		} else {
			online++
		}
	}
	return online, offline
}

// away returns the peers that have registered and are silent; only the leader knows.
func (s *Server) away() (all []*groupv1.Away, leads bool) {
	registry, desk := s.Leading.Registry(), s.Leading.Replications()
	if registry == nil || desk == nil {
		return nil, false
	}
	all = slices.Concat(registry.AwayGatherers(), desk.Away())
	return slices.DeleteFunc(all, func(one *groupv1.Away) bool { return !isMissed(one, s.ServiceAccounts.Services()) }), true
}

// isMissed reports whether a silent peer should be here. One that was silent before this manager began to lead may have stopped in order
// meanwhile: in Kubernetes it is not missed if no pods of its kind should be here.
func isMissed(one *groupv1.Away, accounts map[string]identity.Role) bool {
	role, _, _ := strings.Cut(one.GetId(), "/")
	return one.GetSeenTime() != nil || len(accounts) == 0 || isExpected(accounts, identity.Role(role))
}

// isExpected reports whether pods of a kind should be here.
func isExpected(accounts map[string]identity.Role, kind identity.Role) bool {
	return slices.Contains(slices.Collect(maps.Values(accounts)), kind)
}

// Expects reports whether pods of a kind should be here. Outside of Kubernetes nobody knows, and it returns false.
func (s *Server) Expects(kind identity.Role) bool {
	return isExpected(s.ServiceAccounts.Services(), kind)
}

// Silent returns how many peers of a kind have registered, should be here and are silent. Only the leader knows that; other managers return 0.
func (s *Server) Silent(kind identity.Role) (n int) {
	away, _ := s.away()
	for _, one := range away {
		if role, _, _ := strings.Cut(one.GetId(), "/"); identity.Role(role) == kind {
			n++
		}
	}
	return n
}

// Absent returns of how many ServiceAccounts no pod is here. Only the leader knows that; other managers return 0.
func (s *Server) Absent() int {
	away, leads := s.away()
	if !leads {
		return 0
	}
	return len(absent(s.ServiceAccounts.Services(), s.View.Count(), away))
}

// absent says of which ServiceAccounts no pod is here. Only Kubernetes knows why: a manager sees no pods.
func absent(accounts map[string]identity.Role, counts view.Counts, away []*groupv1.Away) (all []string) {
	here := map[identity.Role]int{identity.Agent: counts.AgentsOnline, identity.Gatherer: counts.Gatherers, identity.Replicator: counts.Replicators}
	for _, one := range away {
		role, _, _ := strings.Cut(one.GetId(), "/")
		here[identity.Role(role)]--
	}
	for _, account := range slices.Sorted(maps.Keys(accounts)) {
		if here[accounts[account]] > 0 {
			continue
		}
		namespace, _, _ := strings.Cut(account, "/")
		all = append(all, fmt.Sprintf("no %s is here, though pods of ServiceAccount %s are to be: kubectl -n %s get ds,sts,pods,pvc,events says why, or their logs do",
			accounts[account], account, namespace))
	}
	return all
}
