package relay

import (
	"strings"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// newAsking returns a delivery of a stream at an agent that has everything from an offset on, with one child that is there, and another
// that lacks what came before.
func newAsking(t *testing.T, at, less uint64) *delivery {
	d, err := newDelivery(newHub(t, &nowhere{}), streamTo(1, "stays", "new"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stop)
	d.update(func() {
		d.account.Restart(at)
		d.account.Attach("stays", at, time.Now())
		d.account.Attach("new", less, time.Now())
		d.wanted = true
	})
	if from := d.from(); from != less {
		t.Fatalf("the next link begins at %d, want one that asks from %d", from, less)
	}
	return d
}

// streamTo gives an agent its place in the tree of a stream.
func streamTo(version uint64, children ...string) *groupv1.Assignment {
	a := &groupv1.Assignment{
		Delivery: strings.Repeat("0a", 16), TreeVersion: version,
		Spec:   &groupv1.DeliverySpec{Kind: groupv1.DeliveryKind_DELIVERY_KIND_STREAM, LengthUnknown: true},
		Parent: &groupv1.Neighbour{Name: "up", Role: string(identity.Agent), Addresses: []string{"up.invalid:1"}},
	}
	for _, child := range children {
		a.Children = append(a.Children, &groupv1.Neighbour{Name: child, Role: string(identity.Member)})
	}
	return a
}

// A link that asks whether there is anything of a stream for a child ends when the tree no longer has that child: the others wait for
// what comes next. If the answer is that it is not kept, the parent is not lost for that.
func TestNobodyAsksForAChildThatIsElsewhere(t *testing.T) {
	const at, less = 100, 10
	d := newAsking(t, at, less)
	ctx, release, err := d.inlet.take(d.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	d.assign(streamTo(2, "stays"))
	if ctx.Err() == nil {
		t.Error("it goes on asking for a child that is elsewhere")
	}
	notKept := &link.Ended{Reason: wire.NotKept, Offset: at / 2}
	if !d.forgo(notKept, less, true) {
		t.Error("the parent is lost, for it does not keep what nobody asks for any more")
	}
	if d.forgo(notKept, at, false) {
		t.Error("a parent that says that it keeps what it does not give is not lost")
	}
}

// A sender of the version before ends a link without a word of what it has, where that asked for what it does not keep. If the link did not
// ask, as one that began before there was anybody to ask for, that says nothing of what it keeps.
func TestLinkThatDidNotAskSaysNothingOfWhatIsKept(t *testing.T) {
	const at, less = 100, 10
	ended := &link.Ended{Reason: wire.Protocol, Offset: at}
	for begun, gone := range map[uint64]bool{at: false, less: true} {
		d := newAsking(t, at, less)
		if d.forgo(ended, begun, begun < at); d.isGone(less) != gone {
			t.Errorf("a link from %d has ended: what is lacked from %d on is gone: %t", begun, less, !gone)
		}
	}
}

// An answer that comes when the child that asked has gone does not have the others begin again, however much further the parent has
// something. Nor does the word of a parent that has something beyond the end: that would go on for ever.
func TestAnswerThatNobodyAwaitsBeginsNothingAgain(t *testing.T) {
	const at, less = 100, 10
	for name, tt := range map[string]struct {
		kept     uint64
		question bool
		length   uint64
		want     bool
	}{
		"an answer to one that has gone": {2 * at, true, 0, true},
		"no question":                    {2 * at, false, 0, true},
		"no question, beyond the end":    {2 * at, false, at, false},
	} {
		d := newAsking(t, at, less)
		leaves := streamTo(2, "stays")
		leaves.Sealed, leaves.Length = tt.length > 0, tt.length
		d.assign(leaves)
		forgone := d.forgo(&link.Ended{Reason: wire.NotKept, Offset: tt.kept}, less, tt.question)
		if begins := d.begin != nil; forgone != tt.want || begins != (tt.want && !tt.question) {
			t.Errorf("%s: it is taken for an answer: %t, and begins again: %t", name, forgone, begins)
		}
	}
}
