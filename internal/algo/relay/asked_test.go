package relay_test

import (
	"testing"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

// wantCredit checks up to where the parent may send.
func (a *agent) wantCredit(packets uint64, why string) {
	a.Helper()
	a.settle()
	if got := a.Credit(); got != packets*block {
		a.Errorf("%s: credit is up to %d, want %d packets", why, got, packets)
	}
}

// Nothing is asked for that no child asks for.
func TestOnlyWhatIsAskedForComes(t *testing.T) {
	a := newAgent(t, relay.Rules{Asked: true}, 100*block, "Rx1", "Rx2")
	a.wantCredit(0, "nobody has asked")
	if !a.Idle() || a.Stalled() {
		t.Errorf("idle: %t, stalled: %t; it waits for its children, and not for room", a.Idle(), a.Stalled())
	}
	a.Asks("Rx1", 3*block)
	a.wantCredit(3, "one has asked")
	if a.Idle() {
		t.Error("it is idle, though a child waits for what it has asked for")
	}
	a.Asks("Rx2", 2*block)
	a.wantCredit(3, "both have")
	a.receive(3)
	if !a.Idle() {
		t.Error("it is not idle, though all has come that was asked for")
	}
}

// A child that has what comes next does not make it come while another may still ask for it. When nobody can, all is left out
// that every child has.
func TestWhatAllChildrenHaveIsLeftOut(t *testing.T) {
	a := newAgent(t, relay.Rules{Asked: true}, 100*block, "Rx1", "Rx2")
	a.Asks("Rx1", block)
	a.wantCredit(1, "of the head")
	a.receive(1)
	a.Attach("Rx1", 20*block, start)
	a.Asks("Rx1", 30*block)
	a.wantCredit(1, "Rx2 may need what is between")
	if _, ahead := a.Ahead(4 * block); ahead {
		t.Fatal("what is between is left out, though Rx2 may need it")
	}
	a.Detach("Rx2")
	a.wantCredit(1, "Rx2 is about to come back")
	if _, ahead := a.Ahead(4 * block); ahead {
		t.Fatal("what is between is left out, though Rx2 is about to come back")
	}
	a.Attach("Rx2", 10*block, start)
	a.Asks("Rx2", 12*block)
	from, ahead := a.Ahead(4 * block)
	if !ahead || from != 10*block {
		t.Fatalf("it goes on at %d: %t, want at %d", from, ahead, 10*block)
	}
	a.Restart(from)
	a.wantCredit(12, "of Rx2")
	a.receive(2)
	a.Attach("Rx2", 40*block, start)
	from, ahead = a.Ahead(4 * block)
	if !ahead || from != 20*block {
		t.Fatalf("it goes on at %d: %t, want at %d", from, ahead, 20*block)
	}
	a.Restart(from)
	a.wantCredit(30, "of Rx1")
}

// What all have is sent all the same if it is too little to be left out.
func TestLittleIsNotLeftOut(t *testing.T) {
	a := newAgent(t, relay.Rules{Asked: true}, 100*block, "Rx1", "Rx2")
	a.Attach("Rx1", 3*block, start)
	a.Attach("Rx2", 2*block, start)
	a.Asks("Rx2", 5*block)
	if _, ahead := a.Ahead(4 * block); ahead {
		t.Fatal("so little is left out")
	}
	a.wantCredit(5, "of Rx2, which is first")
}

// A child that stays away is not waited for.
func TestChildThatStaysAwayIsNotWaitedFor(t *testing.T) {
	a := newAgent(t, relay.Rules{Asked: true}, 100*block, "Rx1", "Rx2")
	a.Detach("Rx2")
	a.Attach("Rx1", 20*block, start)
	a.Asks("Rx1", 30*block)
	a.wantCredit(0, "Rx2 is about to come back")
	a.WaitForAll(false)
	from, ahead := a.Ahead(4 * block)
	if !ahead || from != 20*block {
		t.Fatalf("it goes on at %d: %t, want at %d", from, ahead, 20*block)
	}
	a.Restart(from)
	a.wantCredit(30, "of Rx1")
	a.Detach("Rx1")
	if _, ahead := a.Ahead(1); ahead || !a.Idle() {
		t.Error("nobody is here, and something is asked for")
	}
}

// A child that waits for the others, since the cache no longer has what it lacks, does not keep them from leaving something out.
func TestChildThatWaitsKeepsNobodyFromLeavingOut(t *testing.T) {
	a := newAgent(t, relay.Rules{Asked: true}, 100*block, "Rx1", "Rx2")
	a.Asks("Rx1", 8*block)
	a.Asks("Rx2", 8*block)
	a.settle()
	a.receive(8)
	a.ack("Rx1", 8)
	a.ack("Rx2", 8)
	a.Discard(8*block, 8*block)
	if served := a.Attach("Rx2", block, start); served {
		t.Fatal("it is served, though what it lacks is discarded")
	}
	a.Park("Rx2")
	a.Asks("Rx2", 9*block)
	a.Attach("Rx1", 20*block, start)
	from, ahead := a.Ahead(4 * block)
	if !ahead || from != 20*block {
		t.Errorf("it goes on at %d: %t, want at %d, where the other child is", from, ahead, 20*block)
	}
}
