package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/version"
	"github.com/groupcast/groupcast/services/manager/view"
)

type managerService struct {
	groupv1.UnimplementedManagerServiceServer
	server *Server
}

// GetStatus answers from what this manager sees, without asking the store: it
// must work when little else does.
func (m *managerService) GetStatus(context.Context, *groupv1.GetStatusRequest) (*groupv1.GetStatusResponse, error) {
	leader := m.server.Leading.Leader()
	counts := m.server.View.Count()
	response := &groupv1.GetStatusResponse{
		Name: m.server.Name, Version: version.String(),
		Leader: leader.Name, Term: leader.Term, Revision: uint64(m.server.View.Revision()),
		Groups: uint32(counts.Groups), Members: uint32(counts.Members),
		AgentsOnline: uint32(counts.AgentsOnline), AgentsOffline: uint32(counts.AgentsOffline),
		StartTime: timestamppb.New(m.server.Started), TrustDomain: m.server.TrustDomain,
		Absent: absent(m.server.ServiceAccounts.Accounts(), counts),
	}
	if err := m.server.Room(); err != nil {
		response.ReadOnlyReason = err.Error()
	}
	return response, nil
}

// absent says of which ServiceAccounts' pods none is here. Why not, only Kubernetes knows: a manager sees no pods.
func absent(accounts map[string]identity.Role, counts view.Counts) (all []string) {
	here := map[identity.Role]int{identity.Agent: counts.AgentsOnline, identity.Gatherer: counts.Gatherers, identity.Replicator: counts.Replicators}
	for _, account := range slices.Sorted(maps.Keys(accounts)) {
		if here[accounts[account]] > 0 {
			continue
		}
		namespace, _, _ := strings.Cut(account, "/")
		all = append(all, fmt.Sprintf("no %s is here, though pods of ServiceAccount %s are to be: kubectl -n %s get ds,sts,pods,pvc,events says why",
			accounts[account], account, namespace))
	}
	return all
}
