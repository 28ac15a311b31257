package delivery

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/view"
)

var creator = identity.ID{Role: identity.Member, Name: "s"}

// creating is a desk with a group of a sender and a member.
func creating(t *testing.T) *Desk {
	t.Helper()
	d := leading(t)
	d.put(t, view.GroupKey("g"), &groupv1.Group{Name: "g"})
	d.join(t, "s", "")
	d.join(t, "m", "")
	d.put(t, view.AgentKey("a"), &agentv1.Agent{Name: "a", State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{"a:7410"}})
	if err := d.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.AttachAgent("a")
	close(d.ended) // no keeper is started
	return d
}

// create begins a delivery by a request and cancels it.
func (d *Desk) create(t *testing.T, caller identity.ID, request string) error {
	t.Helper()
	answer, err := d.Create(t.Context(), caller, &groupv1.CreateDeliveryRequest{Group: "g", Sender: "s", RequestId: request, Spec: &groupv1.DeliverySpec{
		Name: strings.Repeat("n", maxName), Kind: groupv1.DeliveryKind_DELIVERY_KIND_FILE, Length: 1,
	}})
	if err == nil {
		_, err = d.Cancel(t.Context(), answer.GetDelivery().GetId())
	}
	return err
}

// What a member's deliveries write is remembered for long, also if it cancels each of them at once: it cannot fill the store with them. Operators
// may do everything.
func TestOneMemberCannotFillTheStoreWithDeliveries(t *testing.T) {
	d := creating(t)
	const most = 16
	d.created = newAllowance(1, most*createCost)
	begun, err := 0, error(nil)
	for ; begun < most && err == nil; begun++ {
		err = d.create(t, creator, "")
	}
	if limited := new(ledger.RateLimited); !errors.As(err, &limited) || begun < most/2 {
		t.Errorf("it began %d: %v, want it limited after some", begun, err)
	}
	for range most {
		if err := d.create(t, identity.ID{Role: identity.Operator, Name: "o"}, ""); err != nil {
			t.Fatalf("an operator: %v", err)
		}
	}
}

// Whoever repeats a request, as its answer was lost, pays nothing for that, and is answered when it may not begin anything new.
func TestRepeatedRequestIsPaidForOnce(t *testing.T) {
	d := creating(t)
	d.created = newAllowance(1, 3*createCost) // two
	for _, request := range []string{"first", "first", "first", "first", "second", "second", "first"} {
		if err := d.create(t, creator, request); err != nil {
			t.Fatalf("%s: %v", request, err)
		}
	}
	if limited := new(ledger.RateLimited); !errors.As(d.create(t, creator, "third"), &limited) {
		t.Error("a third is not limited")
	}
	if err := d.create(t, creator, "first"); err != nil {
		t.Errorf("what was carried out, asked for again: %v", err)
	}
}

// A delivery that is planned anew since others changed the same meanwhile is paid for once.
func TestPlanningAnewIsFree(t *testing.T) {
	d := creating(t)
	d.created = newAllowance(1, 3*createCost)
	response := new(groupv1.CreateDeliveryResponse)
	c := creation{desk: d, caller: creator, id: ledger.NewID(), now: time.Now(), asked: &groupv1.CreateDeliveryRequest{Group: "g", Sender: "s", Spec: fileSpec()}}
	for attempt := range 20 {
		if _, err := c.plan(response); err != nil {
			t.Fatalf("attempt %d: %v", attempt+1, err)
		}
	}
}

// What a request costs more when it comes again, as more members are there, is paid. Once a request is forgotten it is paid for again, and no caller
// has more remembered than there is room for.
func TestAllowanceOfRequests(t *testing.T) {
	a, now := newAllowance(1, 100), time.Now()
	want := func(request string, cost int, may bool) {
		t.Helper()
		if retry, did := a.take("s", request, cost, now); did != may || !did && retry <= 0 {
			t.Errorf("%s for %d: %t, again after %v", request, cost, did, retry)
		}
	}
	want("one", 60, true)
	want("one", 60, true)
	want("one", 90, true)
	want("one", 101, true) // there is never more than the burst
	want("two", 1, false)
	now = now.Add(50 * time.Second)
	want("two", 50, true)
	want("one", 90, true)
	if _, may := a.take("other", "two", 100, now); !may {
		t.Error("another caller has less")
	}
	now = now.Add(paidFor)
	want("one", 90, true)
	want("two", 50, false)
	for i := range 3 * paidMost {
		want(fmt.Sprint(i), 0, true)
	}
	if known := len(a.of["s"].paid); known > paidMost {
		t.Errorf("%d requests are remembered, want %d at most", known, paidMost)
	}
	if a.forget(now.Add(time.Hour)); len(a.of) > 0 {
		t.Errorf("%d callers are remembered to whom nothing would be refused", len(a.of))
	}
}

// A member may begin thousands of small deliveries within seconds, also many at the same time.
func TestManySmallDeliveriesAreNotLimited(t *testing.T) {
	a := newAllowance(createRate, createBurst)
	var all sync.WaitGroup
	var refused atomic.Int64
	for who := range 10 {
		all.Go(func() {
			for i := range 1000 {
				if _, may := a.take("s", fmt.Sprint(who, "/", i), createCost+1<<10, time.Now()); !may {
					refused.Add(1)
				}
			}
		})
	}
	if all.Wait(); refused.Load() > 0 {
		t.Errorf("%d are refused", refused.Load())
	}
}
