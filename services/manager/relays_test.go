package manager_test

import (
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// relaying lets a member join, and be an agent.
func (p *party) relaying(t *testing.T, session *sdk.Session, machine string) *node {
	t.Helper()
	config, err := session.RelayAccess(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	member := session.Member()
	n := newNode(member.Name + "." + member.Group)
	n.config = config
	p.register(t, n, machine, "")
	return n
}

func joined(t *testing.T, client *sdk.Client, group, name, machine string) *sdk.Session {
	t.Helper()
	session, err := client.Join(t.Context(), sdk.Join{Group: group, Name: name, Node: machine})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// "A member may offer to relay (policy)": the caller has to be that member, and only an operator can allow it.
func TestWhoMayRelay(t *testing.T) {
	m := managertest.Start(t)
	operator := m.Client(t)
	for group, policy := range map[string]sdk.Policy{"relaying": {MembersRelay: true}, "quiet": {}} {
		if _, err := operator.CreateGroup(t.Context(), group, policy); err != nil {
			t.Fatal(err)
		}
	}
	alice := dial(t, letIn(t, mustRead(t, m.Access), "member", "alice", "*"))
	for group, reason := range map[string]string{"relaying": "", "quiet": "RELAY_NOT_ALLOWED"} {
		if _, err := joined(t, alice, group, "alice", "n").RelayAccess(t.Context(), t.TempDir()); managertest.Reason(err) != reason {
			t.Errorf("in group %s: %v, want reason %q", group, err, reason)
		}
	}
	bob := joined(t, operator, "relaying", "bob", "n")
	identities := groupv1.NewIdentityServiceClient(managertest.Dial(t, letIn(t, mustRead(t, m.Access), "member", "mallory", "*")))
	for member, reason := range map[string]string{"bob": "DENIED", "mallory": "SESSION_ENDED"} {
		if _, err := identities.IssueRelay(t.Context(), &groupv1.IssueRelayRequest{Group: "relaying", Member: member}); managertest.Reason(err) != reason {
			t.Errorf("mallory as %s: %v, want reason %q", member, err, reason)
		}
	}
	if err := bob.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.RelayAccess(t.Context(), t.TempDir()); managertest.Reason(err) != "SESSION_ENDED" {
		t.Errorf("who has left: %v", err)
	}
}

// "a group without agents still forms a tree of its members", and only of its own members.
func TestMembersRelayInTheirGroup(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	config := mustRead(t, m.Access)
	p := newParty(t, config, &groupv1.Policy{MembersRelay: true})
	operator := m.Client(t)
	if _, err := operator.CreateGroup(t.Context(), "other", sdk.Policy{MembersRelay: true}); err != nil {
		t.Fatal(err)
	}
	stranger := p.relaying(t, joined(t, operator, "other", "stranger", "n9"), "n9")
	sender := p.join(t, "s", "n0", send)
	if _, err := p.tryCreate(t, sender, file(megabyte)); managertest.Reason(err) != "NO_RECEIVERS" {
		t.Errorf("without receivers: %v", err)
	}
	a, b := p.join(t, "a", "n1", receiveToo), p.join(t, "b", "n2", receiveToo)
	if _, err := p.tryCreate(t, sender, file(megabyte)); managertest.Reason(err) != "NO_AGENT" {
		t.Errorf("with the relay of another group alone: %v", err)
	}
	relay := p.relaying(t, joined(t, operator, partyGroup, "r", "n1"), "n1")
	id := p.create(t, sender, file(megabyte))
	for _, n := range []*node{a, b} {
		n.has(t, id, "fed by the relay", fedBy("r."+partyGroup))
	}
	relay.has(t, id, "told whom to feed", children("a", "b")) // r receives nothing: it only holds a session
	stranger.mu.Lock()
	defer stranger.mu.Unlock()
	if len(stranger.assigned) > 0 {
		t.Errorf("a relay of another group was assigned %v", stranger.assigned)
	}
}

// A relay is one as long as its member has a session, and the policy lets it.
func TestRelayEndsWithItsMember(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(operator *sdk.Client, session *sdk.Session) error{
		"the member left": func(_ *sdk.Client, session *sdk.Session) error { return session.Leave(t.Context()) },
		"the policy changed": func(operator *sdk.Client, _ *sdk.Session) error {
			_, err := operator.UpdateGroup(t.Context(), partyGroup, sdk.Policy{}, "", "members_relay")
			return err
		},
		"the member was revoked": func(operator *sdk.Client, _ *sdk.Session) error { return operator.Revoke(t.Context(), "member", "r") },
	} {
		t.Run(what, func(t *testing.T) {
			m := managertest.Start(t)
			config := mustRead(t, m.Access)
			p := newParty(t, config, &groupv1.Policy{MembersRelay: true})
			session := joined(t, dial(t, letIn(t, config, "member", "r", "*")), partyGroup, "r", "n1")
			relay := p.relaying(t, session, "n1")
			if err := end(m.Client(t), session); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-relay.ended:
				if err == nil {
					t.Error("the relay ended as if it had been told to")
				}
			case <-time.After(20 * time.Second):
				t.Error("the relay goes on")
			}
		})
	}
}
