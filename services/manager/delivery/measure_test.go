package delivery

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// Who is not heard of any more is so since its last word, not since its session expired; a leader that has none knows no better.
func TestUnknownSinceTheLastWord(t *testing.T) {
	begun := time.Unix(1000, 0)
	said, expired := begun.Add(time.Second), begun.Add(10*time.Second)
	k := &keeper{progress: &progress{
		nodes:   map[identity.ID]*nodeProgress{placement.MemberID("heard"): {report: &groupv1.DeliveryReport{Bytes: 5}, at: said}},
		unknown: map[string]time.Time{"heard": expired, "unheard": expired},
	}}
	for name, want := range map[string]time.Time{"heard": said, "unheard": expired} {
		for what, receipt := range map[string]*groupv1.Receipt{"under way": k.underWay(name, false), "at the end": k.unknownReceipt(name, expired.Add(time.Minute))} {
			if got := receipt.GetChangeTime().AsTime(); receipt.GetState() != groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN || !got.Equal(want) {
				t.Errorf("%s %s is %v since %v, want %v", name, what, receipt.GetState(), got, want)
			}
		}
	}
}

// What a link carried counts until its last byte, whenever that is told; no word of an agent takes it back to before the
// delivery began, or ahead.
func TestLinksAreMeasuredByTheirLastByte(t *testing.T) {
	const told, second = 10, 1000
	agent, member := identity.ID{Role: identity.Agent, Name: "a"}, placement.MemberID("m")
	current, err := tree.Restore([]tree.Link{
		{Node: tree.Node{Name: "member/s", Kind: tree.Member}},
		{Node: tree.Node{Name: agent.String(), Kind: tree.Agent}, Parent: "member/s"},
		{Node: tree.Node{Name: member.String(), Kind: tree.Member}, Parent: agent.String()},
	}, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		since *durationpb.Duration
		want  uint64
	}{
		"eight seconds ago":  {durationpb.New(8 * time.Second), told * second / 2},
		"now":                {durationpb.New(0), second},
		"not said":           {nil, second},
		"before it began":    {durationpb.New(time.Hour), 0},
		"before it is later": {durationpb.New(-time.Hour), second},
	} {
		p := &progress{begun: begin, nodes: make(map[identity.ID]*nodeProgress), links: make(map[link]*carriage), acked: make(map[string]uint64)}
		p.take(agent, &groupv1.DeliveryReport{Children: []*groupv1.ChildReport{{Name: "m", SentBytes: told * second, SinceSent: test.since}}}, current, after(told))
		uses := measuring{progress: p}.links()
		if len(uses) != 1 || uses[0].GetBytes() != told*second || uses[0].GetBytesPerSecond() != test.want {
			t.Errorf("%s: the links are measured as %v, want %d/s", name, uses, test.want)
		}
	}
}

// A delivery is measured for good once all of its agents have told that they are done with it. What the sender sent is known
// when it has ended.
func TestAllAgentsRest(t *testing.T) {
	a, b, m := identity.ID{Role: identity.Agent, Name: "a"}, identity.ID{Role: identity.Agent, Name: "b"}, placement.MemberID("m")
	k := &keeper{
		assigned: map[identity.ID]*groupv1.Assignment{a: {}, b: {}, m: {}},
		progress: &progress{nodes: make(map[identity.ID]*nodeProgress)},
	}
	report := func(id identity.ID, resting bool) {
		k.progress.nodes[id] = &nodeProgress{report: &groupv1.DeliveryReport{Resting: resting}}
	}
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"nobody has reported", func() {}, false},
		{"one rests", func() { report(a, true) }, false},
		{"the other works", func() { report(b, false) }, false},
		{"both rest", func() { report(b, true) }, true},
		{"one feeds a late member", func() { report(a, false) }, false},
	} {
		step.do()
		if got := k.allRest(); got != step.want {
			t.Errorf("%s: all rest: %v", step.what, got)
		}
	}
}

// The sender's own link has what it carried: less than the sender is at where the agent had a part already.
func TestSendersLinkHasWhatItCarried(t *testing.T) {
	p := &progress{sender: placement.MemberID("s")}
	a, b := identity.ID{Role: identity.Agent, Name: "a"}, identity.ID{Role: identity.Agent, Name: "b"}
	said := &groupv1.DeliveryReport{Bytes: 100, Fed: &groupv1.ChildReport{Name: "a", SentBytes: 40}}
	if toA, toB := p.sentTo(a, said, nil), p.sentTo(b, said, nil); toA != 40 || toB != 0 {
		t.Errorf("%d went to the one that is fed, and %d to another", toA, toB)
	}
	said.Fed = nil
	if got := p.sentTo(a, said, nil); got != 100 {
		t.Errorf("of one that does not say it, %d", got)
	}
}
