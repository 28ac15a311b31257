package relay_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/relay"
)

// compared is an agent whose children have got the head, of one block, and find out what they have.
func compared(t *testing.T, rules relay.Rules, children ...string) *agent {
	t.Helper()
	rules.Asked = true
	a := newAgent(t, rules, 100*block, children...)
	a.length = 100 * block
	a.settle()
	for _, child := range children {
		a.Asks(child, block)
	}
	a.settle()
	a.receive(1)
	for _, child := range children {
		a.ack(child, 1)
	}
	return a
}

// asks has a child come and ask for the packets from one to another.
func (a *agent) asks(child string, from, to uint64) {
	a.Helper()
	if served := a.Attach(child, from*block, start); !served {
		a.Fatalf("%s is not served from packet %d on", child, from)
	}
	a.Asks(child, to*block)
}

// look looks at the children so many times.
func (a *agent) look(times int) {
	for range times {
		a.Look()
	}
}

func (a *agent) wantCredit(packets uint64, why string) {
	a.Helper()
	a.settle()
	if got := a.Credit(); got != packets*block {
		a.Errorf("%s: credit is up to %d, want %d packets", why, got, packets)
	}
}

// wantSkip checks that the delivery goes on at a packet, and has it do so; 0 is that it does not.
func (a *agent) wantSkip(to uint64, why string) {
	a.Helper()
	from, ahead := a.Ahead(4 * block)
	if ahead != (to > 0) || ahead && from != to*block {
		a.Fatalf("%s: it goes on at %d: %t, want at packet %d", why, from, ahead, to)
	}
	if ahead {
		a.Restart(from)
		a.settle()
	}
}

// Nothing comes that no child asks for.
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
	a := compared(t, relay.Rules{}, "Rx1", "Rx2")
	a.asks("Rx1", 20, 30)
	a.wantCredit(1, "Rx2 may need what is between")
	a.wantSkip(0, "Rx2 may need what is between")
	a.Detach("Rx2")
	a.wantCredit(1, "Rx2 is about to come back")
	a.wantSkip(0, "Rx2 is about to come back")
	a.asks("Rx2", 10, 12)
	a.wantSkip(10, "Rx2 is first")
	a.wantCredit(12, "of Rx2")
	a.receive(2)
	a.asks("Rx2", 40, 50)
	a.wantSkip(20, "Rx1 is first")
	a.wantCredit(30, "of Rx1")
	a.receive(10)
	a.asks("Rx1", 100, 100)
	a.asks("Rx2", 100, 100)
	a.wantSkip(100, "both wait for the end alone")
}

// What all have is sent all the same if it is too little to be left out.
func TestLittleIsNotLeftOut(t *testing.T) {
	a := compared(t, relay.Rules{}, "Rx1", "Rx2")
	a.asks("Rx1", 4, 5)
	a.asks("Rx2", 3, 6)
	a.wantSkip(0, "so little")
	a.wantCredit(6, "of Rx2, which is first")
}

// That a child comes late says nothing about how long it takes to compare.
func TestChildThatComesLateHasNotCompared(t *testing.T) {
	a := newAgent(t, relay.Rules{Asked: true}, 100*block, "Rx1", "Rx2")
	a.length = 100 * block
	a.settle()
	a.look(2)
	a.Asks("Rx1", block)
	a.Asks("Rx2", block)
	a.settle()
	a.receive(1)
	a.ack("Rx1", 1)
	a.ack("Rx2", 1)
	a.look(60)
	a.asks("Rx1", 20, 60)
	a.look(60)
	a.wantSkip(0, "Rx2 may take twice as long as Rx1")
	a.asks("Rx2", 10, 60)
	a.wantSkip(10, "Rx2 is first")
}

// A child that is away for long, or still compares when the quickest has long done so, is not waited for, and holds up nobody; nor is it slow
// for that.
func TestChildThatAsksForNothingIsNotWaitedForLong(t *testing.T) {
	for name, away := range map[string]bool{"is away": true, "compares": false} {
		for _, mode := range []relay.Mode{relay.Hop, relay.EndToEnd} {
			a := compared(t, relay.Rules{Mode: mode, Window: 8 * block, Slow: relay.Evict, LagBytes: block, LagTime: time.Second}, "Rx1", "Rx2")
			a.look(3) // so long Rx1 has compared
			a.asks("Rx1", 20, 60)
			if away {
				a.Detach("Rx2")
			}
			a.wantSkip(0, name)
			a.look(1)
			a.wantSkip(0, "it may take twice as long as Rx1, and a moment; who has compared may leave before it asks")
			a.look(6)
			if from := a.Needed(20 * block); from != 20*block {
				t.Fatalf("Rx2 %s, and it goes on at %d all the same", name, from)
			}
			a.wantSkip(20, name+" for long")
			a.wantSkip(0, "it has just done so")
			a.settle()
			if a.Credit() == a.Offset() {
				t.Fatalf("Rx2 %s: nothing comes for Rx1", name)
			}
			a.receive(8)
			a.ack("Rx1", 28)
			for second := range 10 {
				if slow := a.Slow(start.Add(time.Duration(second) * time.Second)); len(slow) > 0 {
					t.Fatalf("Rx2 %s, and is given up as slow: %v", name, slow)
				}
			}
			if mode == relay.EndToEnd {
				a.wantAck(28)
			}
		}
	}
}

// A child that asks is awaited again while it is away for a moment, however long it took before.
func TestChildThatHasAskedIsAwaitedAgain(t *testing.T) {
	a := compared(t, relay.Rules{}, "Rx1", "Rx2")
	a.look(20)
	a.asks("Rx1", 20, 30)
	a.asks("Rx2", 10, 12)
	a.wantSkip(10, "of Rx2")
	a.receive(2)
	a.Detach("Rx2")
	a.look(3)
	a.wantSkip(0, "Rx2 is about to come back")
}

// Children that leave to take over what they have take as long as their disks do. When the first is back, another may take twice as long
// before what it lacks comes for the first alone; one that left after that is not awaited for that.
func TestWhoTakesOverIsAwaitedTwiceAsLongAsTheQuickest(t *testing.T) {
	away := func(t *testing.T) *agent {
		a := compared(t, relay.Rules{}, "Rx1", "Rx2")
		a.asks("Rx1", 10, 12)
		a.asks("Rx2", 10, 12)
		a.wantSkip(10, "both")
		a.receive(2)
		a.ack("Rx1", 12)
		a.ack("Rx2", 12)
		a.Detach("Rx1")
		a.Detach("Rx2")
		a.look(20)
		a.wantSkip(0, "nobody asks")
		a.asks("Rx1", 20, 30)
		return a
	}
	a := away(t)
	a.look(20 + 3)
	a.wantSkip(0, "Rx2 may take twice as long as Rx1, and a moment")
	a.asks("Rx2", 20, 30)
	a.wantSkip(20, "both are back")
	a.wantCredit(30, "of both")
	a.receive(10)
	a.ack("Rx1", 30)
	a.Detach("Rx2")
	a.asks("Rx1", 40, 50)
	a.look(4)
	a.wantSkip(40, "Rx2 was away for longer before, which says nothing now")

	a = away(t)
	a.look(20 + 4)
	a.wantSkip(20, "Rx2 is away for longer than that")
}

// Only the first that is back says how long the others may take: with one that takes ever longer than the one before, nobody would be passed
// over. A child that has never come is not awaited for that either, nor does one that comes late say anything.
func TestOnlyTheQuickestSaysHowLongOthersMayTake(t *testing.T) {
	a := compared(t, relay.Rules{}, "Rx1", "Rx2", "Rx3")
	a.Expect([]string{"Rx1", "Rx2", "Rx3", "late", "absent"})
	for _, child := range []string{"Rx1", "Rx2", "Rx3"} {
		a.asks(child, 10, 12)
	}
	a.look(4) // absent and late are not awaited any more
	a.wantSkip(10, "three")
	a.receive(2)
	for _, child := range []string{"Rx1", "Rx2", "Rx3"} {
		a.ack(child, 12)
		a.Detach(child)
	}
	a.look(20)
	a.asks("Rx1", 20, 30)
	a.look(15)
	a.asks("Rx2", 20, 30)
	a.look(8)
	a.wantSkip(0, "Rx3 may take twice as long as Rx1")
	a.look(1)
	a.asks("late", 20, 30)
	a.wantSkip(20, "Rx3 took longer than that")
}

// An agent stays, and asks for nothing while its children take over what they have.
func TestAgentWhoseChildrenTakeOverIsAwaitedToo(t *testing.T) {
	a := compared(t, relay.Rules{}, "Rx1", "SA2")
	a.asks("Rx1", 10, 12)
	a.asks("SA2", 10, 12)
	a.wantSkip(10, "both")
	a.receive(2)
	a.ack("Rx1", 12)
	a.ack("SA2", 12)
	a.Detach("Rx1")
	a.look(20)
	a.asks("Rx1", 20, 30)
	a.look(20 + 3)
	a.wantSkip(0, "those of SA2 may take twice as long as Rx1, and a moment")
	a.look(1)
	a.wantSkip(20, "they take longer than that")
}

// A child that waits for the others has its turn when no other asks for anything, though the end has not come: nobody else may ever
// have it come.
func TestChildThatWaitsHasItsTurnWithoutTheEnd(t *testing.T) {
	for name, leave := range map[string]func(a *agent){
		"has left": func(a *agent) { a.Expect([]string{"Rx2"}) },
		"compares": func(a *agent) { a.asks("Rx1", 9, 9) },
	} {
		a := compared(t, relay.Rules{}, "Rx1", "Rx2")
		a.Asks("Rx1", 9*block)
		a.settle()
		a.receive(8)
		a.ack("Rx1", 9)
		a.Park("Rx2")
		a.Discard(9*block, 9*block)
		a.Asks("Rx1", 20*block)
		a.settle()
		a.Asks("Rx2", 9*block)
		if _, needed := a.Unpark(start); needed {
			t.Errorf("it has its turn while Rx1 still asks for something")
		}
		leave(a)
		if from, needed := a.Unpark(start); !needed || from != block {
			t.Errorf("Rx1 %s: Rx2 has its turn: %t, from %d, want from %d", name, needed, from, block)
		}
	}
}

// A child that waits for the others, since the cache no longer has what it lacks, does not keep them from leaving something out.
func TestChildThatWaitsKeepsNobodyFromLeavingOut(t *testing.T) {
	a := compared(t, relay.Rules{}, "Rx1", "Rx2")
	a.Asks("Rx1", 8*block)
	a.settle()
	a.receive(7)
	a.ack("Rx1", 8)
	a.Park("Rx2")
	a.Asks("Rx2", 9*block)
	a.asks("Rx1", 20, 30)
	a.wantSkip(20, "of Rx1")
}

// A child that asks at last for what the cache no longer has waits for the others, and has its turn then.
func TestChildThatAsksTooLateWaits(t *testing.T) {
	a := compared(t, relay.Rules{}, "Rx1", "Rx2")
	a.asks("Rx1", 20, 60)
	a.look(4)
	a.wantSkip(20, "Rx2 compares for long")
	a.receive(10)
	a.look(1)
	a.Asks("Rx2", 9*block)
	if !a.Waits("Rx2") || a.Serves("Rx2") {
		t.Errorf("it waits: %t, is served: %t; what it lacks is not here", a.Waits("Rx2"), a.Serves("Rx2"))
	}
	a.ack("Rx1", 30)
	a.asks("Rx1", 100, 100)
	a.wantSkip(100, "Rx1 waits for the end")
	a.End()
	if from, needed := a.Unpark(start); !needed || from != block {
		t.Errorf("it has its turn: %t, from %d, want from %d", needed, from, block)
	}
}
