package view

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// Group returns a group and, as the API shows it, its message.
func (v *View) Group(name string) (record Group, message *groupv1.Group, found bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	g, known := v.groups[name]
	if !known {
		return Group{}, nil, false
	}
	return g.record, g.message(), true
}

// Member returns a member.
func (v *View) Member(groupName, name string) (record Member, found bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if g, known := v.groups[groupName]; known {
		record, found = g.members[name]
	}
	return record, found
}

// MemberCount returns how many members a group has.
func (v *View) MemberCount(groupName string) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if g, known := v.groups[groupName]; known {
		return len(g.members)
	}
	return 0
}

// SessionState says whether a session lives, or how it ended, and its group's epoch.
func (v *View) SessionState(groupName, name string, incarnation uint64) (state groupv1.MemberState, epoch uint64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	g, known := v.groups[groupName]
	if !known {
		return groupv1.MemberState_MEMBER_STATE_EXPELLED, 0
	}
	epoch = g.record.GetEpoch()
	switch current, joined := g.members[name]; {
	case joined && current.GetIncarnation() == incarnation:
		return groupv1.MemberState_MEMBER_STATE_ACTIVE, epoch
	case joined && current.GetIncarnation() > incarnation:
		return groupv1.MemberState_MEMBER_STATE_FENCED, epoch
	}
	if end := g.ended[name]; end.incarnation == incarnation {
		return end.state, epoch
	}
	return groupv1.MemberState_MEMBER_STATE_EXPIRED, epoch
}

// Identity returns what is known of an identity; the zero value if nothing is.
func (v *View) Identity(id identity.ID) Identity {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.identities[id]
}

// IsPutOut reports whether an identity was revoked after it registered as an incarnation: then it is silent, but not missed.
func (v *View) IsPutOut(id identity.ID, incarnation uint64) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.isPutOut(id, incarnation)
}

func (v *View) isPutOut(id identity.ID, incarnation uint64) bool {
	return v.identities[id].Revoked >= identity.Stamp(incarnation)
}

// Accounts returns the members that were last let in by their ServiceAccounts.
func (v *View) Accounts() map[identity.ID]Identity {
	v.mu.RLock()
	defer v.mu.RUnlock()
	all := make(map[identity.ID]Identity)
	for id, record := range v.identities {
		if record.Account != "" {
			all[id] = record
		}
	}
	return all
}

// Agent returns an agent.
func (v *View) Agent(name string) (record Agent, found bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	record, found = v.agents[name]
	return record, found
}

// Groups returns up to limit groups, as the API shows them, whose names come after the one given.
func (v *View) Groups(after string, limit int) (page []*groupv1.Group, more bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, g := range v.groups {
		page = append(page, g.record.Group)
	}
	sortByName(page)
	page, more = cut(page, after, limit)
	for i, record := range page {
		page[i] = v.groups[record.GetName()].message()
	}
	return page, more
}

// Members returns up to limit members of a group whose names come after the one given.
func (v *View) Members(groupName, after string, limit int) (page []*groupv1.Member, more bool) {
	return cut(v.AllMembers(groupName), after, limit)
}

// AllMembers returns the members of a group, by name: more than one message may hold.
func (v *View) AllMembers(groupName string) (all []*groupv1.Member) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	g, known := v.groups[groupName]
	if !known {
		return nil
	}
	for _, record := range g.members {
		all = append(all, record.Member)
	}
	sortByName(all)
	return all
}

// Agents returns up to limit agents whose names come after the one given.
func (v *View) Agents(after string, limit int) (page []*agentv1.Agent, more bool) {
	return cut(v.AllAgents(), after, limit)
}

// AllAgents returns the agents, by name: more than one message may hold.
func (v *View) AllAgents() (all []*agentv1.Agent) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, record := range v.agents {
		all = append(all, record.Agent)
	}
	sortByName(all)
	return all
}

// cut returns, of records sorted by name, the first ones whose names come after the one given.
func cut[R interface {
	proto.Message
	GetName() string
}](records []R, after string, limit int) (page []R, more bool) {
	begin, found := slices.BinarySearchFunc(records, after, func(r R, name string) int { return cmp.Compare(r.GetName(), name) })
	if found {
		begin++
	}
	records = records[begin:]
	n := fit(records, limit)
	return records[:n], n < len(records)
}

func sortByName[R interface{ GetName() string }](records []R) {
	slices.SortFunc(records, func(a, b R) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// messageBytes is about how large a message gets: far below what a receiver takes, however much its members say of themselves.
const messageBytes = 1 << 20

// fit returns how many of the records one message can hold: at most limit, and one at least.
func fit[R proto.Message](records []R, limit int) int {
	size := 0
	for i, record := range records[:min(limit, len(records))] {
		if size += proto.Size(record); size > messageBytes && i > 0 {
			return i
		}
	}
	return min(limit, len(records))
}

// Fill returns as many of the messages as one message that lists them can hold, one at least, and whether these are all. It is for messages
// that are larger than their records. At most one more message is made than has room.
func Fill[R proto.Message](messages iter.Seq[R]) (page []R, all bool) {
	size := 0
	for message := range messages {
		if size += proto.Size(message); size > messageBytes && len(page) > 0 {
			return page, false
		}
		page = append(page, message)
	}
	return page, true
}

// All calls each with every member of every group.
func (v *View) All(each func(Member)) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, g := range v.groups {
		for _, record := range g.members {
			each(record)
		}
	}
}

// SessionsOf returns the sessions that a member has in a group, or in all groups if none is named.
func (v *View) SessionsOf(member, groupName string) []Member {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var sessions []Member
	for name, g := range v.groups {
		if groupName != "" && name != groupName {
			continue
		}
		for session, record := range g.members {
			if identity.SessionOf(session) == member {
				sessions = append(sessions, record)
			}
		}
	}
	slices.SortFunc(sessions, func(a, b Member) int {
		return cmp.Or(strings.Compare(a.GetGroup(), b.GetGroup()), strings.Compare(a.GetName(), b.GetName()))
	})
	return sessions
}

// Counts says how much the view holds.
type Counts struct {
	Groups, Members, AgentsOnline, AgentsOffline, DeliveriesRunning int
	// Gatherers and Replicators have registered, whether they are online or not: only the leader knows that.
	Gatherers, Replicators int
}

// Count counts.
func (v *View) Count() Counts {
	v.mu.RLock()
	defer v.mu.RUnlock()
	counts := Counts{Groups: len(v.groups), Members: v.members, Gatherers: len(v.gatherers), Replicators: len(v.replicators)}
	for name, agent := range v.agents {
		switch {
		case agent.GetState() == agentv1.AgentState_AGENT_STATE_ONLINE:
			counts.AgentsOnline++
		case !v.isPutOut(identity.ID{Role: identity.Agent, Name: name}, agent.GetIncarnation()):
			counts.AgentsOffline++
		}
	}
	for _, running := range v.running {
		counts.DeliveriesRunning += running
	}
	return counts
}
