package lab_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// aLANByTheKernel has a sender with a cable of 100 Mbit/s, and a receiver with one of another shape, which has joined a multicast group.
func aLANByTheKernel(t *testing.T, shape link.Shape) (conn, sink net.PacketConn, group *net.UDPAddr, cable lab.Way) {
	t.Helper()
	l := labtest.New(t, 1)
	lan, sender, receiver := l.LAN("lan"), l.Host("sender"), l.Host("receiver")
	l.Link(sender, lan, link.Shape{Rate: 100 * link.Mbit}).ByKernel()
	cable = l.Link(lan, receiver, shape).ByKernel().From(lan)
	labtest.Start(t, l)
	group = &net.UDPAddr{IP: net.IPv4(239, 7, 7, 7), Port: 4001}
	conn, sink = packets(t, sender, "4001"), packets(t, receiver, "4001")
	join(t, receiver, sink, group)
	return conn, sink, group, cable
}

func TestKernelKeepsTheRate(t *testing.T) {
	const size, count, quiet = 1500, 1000, 300 * time.Millisecond
	rate := 100 * link.Mbit
	conn, sink, group, cable := aLANByTheKernel(t, link.Shape{Rate: rate})
	want := rate.Time(size * count)
	eventually(t, func() (bool, string) {
		before, start := cable.Read().Count.Carried, time.Now()
		came := make(chan int)
		go func() { came <- len(receiveNumbered(t, sink, quiet)) }()
		sendNumbered(t, conn, group, size, count, 0)
		arrived, took := <-came, time.Since(start)-quiet
		carried := cable.Read().Count.Carried
		bytes := carried.Bytes - before.Bytes
		return arrived == count && bytes >= size*count && bytes < size*(count+10) && took > want*98/100 && took < want*105/100,
			fmt.Sprintf("%d packets and %d bytes in %v, want %d in %v", arrived, bytes, took, count, want)
	})
}

func TestKernelKeepsTheQueue(t *testing.T) {
	const size, count, queue = 1500, 400, 20
	conn, sink, group, _ := aLANByTheKernel(t, link.Shape{Rate: 10 * link.Mbit, Queue: link.Packets(queue)})
	eventually(t, func() (bool, string) {
		sendNumbered(t, conn, group, size, count, 0)
		numbers := receiveNumbered(t, sink, 300*time.Millisecond)
		const want = count/10 + queue // a tenth leaves while all come, and then the queue
		return len(numbers) >= want-3 && len(numbers) <= want+10 && numbers[queue-1] == queue-1,
			fmt.Sprintf("%d packets arrived, want some %d, the first of them without a gap", len(numbers), want)
	})
}

func TestKernelLosesItsShare(t *testing.T) {
	const size, count, share = 100, 20_000, 0.05
	conn, sink, group, cable := aLANByTheKernel(t, link.Shape{Rate: 100 * link.Mbit, Loss: share})
	came := make(chan int)
	go func() { came <- len(receiveNumbered(t, sink, 300*time.Millisecond)) }()
	sendNumbered(t, conn, group, size, count, 0)
	arrived := <-came
	lost := 1 - float64(arrived)/count
	told := cable.Read().Count
	if told.Carried.Packets < count {
		t.Errorf("%d packets were carried, want %d: what is lost is lost on the wire", told.Carried.Packets, count)
	}
	if missing := int64(count - arrived); told.Lost.Packets < missing || told.Lost.Packets > missing+10 || told.Lost.Bytes < link.Bytes(size*told.Lost.Packets) || told.Delivered.Packets != told.Carried.Packets-told.Lost.Packets {
		t.Errorf("%d packets did not arrive, and the link tells %+v", missing, told)
	}
	if lost < 0.9*share || lost > 1.1*share {
		t.Errorf("lost %.2f %%, want some %.0f", 100*lost, 100*share)
	}
}

func TestKernelKeepsNoDelay(t *testing.T) {
	for _, shape := range []link.Shape{{}, {Rate: link.Mbit, Delay: time.Millisecond}, {Rate: link.Mbit, Corrupt: 0.1}} {
		l := labtest.New(t, 1)
		l.Link(l.Host("a"), l.Host("b"), shape).ByKernel()
		if err := l.Start(); err == nil || !strings.Contains(err.Error(), "link a–b: the kernel keeps a rate, a queue, an MTU and loss") {
			t.Errorf("%+v: %v", shape, err)
		}
	}
}
