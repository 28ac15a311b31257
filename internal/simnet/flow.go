package simnet

import "math"

// flow is one direction of a connection. Write copies a byte into the ring, and Read copies it out; in between only offsets move:
//
//	read ≤ arrived ≤ sent ≤ written
//	      │         │      └ wait in the sender's kernel, at most buffer
//	      │         └ are on the line
//	      └ wait for the receiver's program
//
// The sender learns with a delay what was read: sent ≤ credited + window.
type flow struct {
	number           int // connection * 2 + direction
	sender, receiver *end
	way              *way
	ring             ring
	buffer, window   int64

	written, sent, arrived, read int64
	credited                     int64 // what the sender knows to be read
	announced                    int64 // what the receiver has told

	closing, finSent, finArrived bool
	queued                       bool // has a place on the way
	dirty                        bool // waits for settling
	damaged                      bool // a bit was flipped
}

// room returns how many bytes Write may take. At an end to which damaged bytes were sent, nobody
// waits for room. crypto/tls answers such bytes with an alert, for which it needs a mutex that a
// writer holds; and while anybody waits for a mutex, virtual time stands still.
func (f *flow) room() int {
	if f.sender.in.damaged {
		return math.MaxInt32
	}
	return int(max(0, f.buffer-(f.written-f.sent)))
}

func (f *flow) unread() int { return int(f.arrived - f.read) }

// touch makes the network look at the flow once all programs wait.
func (f *flow) touch() {
	if !f.dirty {
		f.dirty = true
		f.way.net.dirty = append(f.way.net.dirty, f)
		f.way.net.settleSoon()
	}
}

func (f *flow) advance() {
	f.push()
	f.credit()
	f.forget()
}

// push queues the flow on the way if there is something to send.
func (f *flow) push() {
	if !f.queued && !f.sender.gone && (f.turn(1) > 0 || f.finDue()) {
		f.queued = true
		f.way.offer(f)
	}
}

func (f *flow) finDue() bool { return f.closing && !f.finSent && f.written == f.sent }

func (f *flow) turn(limit int) int {
	if f.way.narrow && f.written-f.sent > smallPacket {
		return 0 // its packet is lost, however often it is sent again
	}
	return int(max(0, min(f.written-f.sent, f.credited+f.window-f.sent, int64(limit))))
}

func (f *flow) depart(bytes int) (again bool) {
	f.queued = false
	if f.sender.gone {
		return false
	}
	bytes = min(bytes, int(f.written-f.sent))
	if bytes > 0 {
		f.way.damage(f, bytes)
		f.sent += int64(bytes)
		f.sender.writable.wake()
		f.way.post(arrival{arrive: func() { f.arrive(bytes) }})
	}
	if f.finDue() {
		f.finSent = true
		f.way.post(arrival{arrive: f.arriveFin})
	}
	f.queued = f.turn(1) > 0
	return f.queued
}

func (f *flow) arrive(bytes int) {
	f.arrived += int64(bytes)
	f.way.net.log.add(f.way, f.number, "data", f.arrived)
	if f.receiver.deaf() {
		f.drop()
		f.receiver.answerReset()
		return
	}
	f.receiver.readable.wake()
	if f.damaged {
		f.receiver.writable.wake()
	}
}

func (f *flow) arriveFin() {
	f.way.net.log.add(f.way, f.number, "fin", f.arrived)
	if f.receiver.gone {
		f.receiver.answerReset()
		return
	}
	f.finArrived = true
	f.receiver.readable.wake()
	f.forget()
}

// credit tells the sender what was read, whenever that is a quarter of a window or nothing is left.
func (f *flow) credit() {
	fresh := f.read - f.announced
	if f.receiver.gone || fresh == 0 || fresh < f.window/4 && f.unread() > 0 {
		return
	}
	f.announced = f.read
	told := f.read
	f.way.net.way(f.way.to, f.way.from).post(arrival{arrive: func() {
		f.credited = max(f.credited, told)
		f.push()
	}})
}

// take copies out what has arrived.
func (f *flow) take(p []byte) int {
	n := min(len(p), f.unread())
	f.ring.read(p[:n], f.read)
	f.read += int64(n)
	f.way.count.Delivered += int64(n)
	f.touch()
	return n
}

func (f *flow) put(p []byte) int {
	n := min(len(p), f.room())
	f.ring.write(p[:n], f.read, f.written)
	f.written += int64(n)
	f.way.count.Offered += int64(n)
	f.touch()
	return n
}

// truncate loses the bytes that were not sent.
func (f *flow) truncate() {
	f.way.count.Lost += f.written - f.sent
	f.written = f.sent
}

// drop loses the bytes that have arrived and that nobody will read.
func (f *flow) drop() {
	f.way.count.Lost += f.arrived - f.read
	f.read = f.arrived
}

// forget removes the flow from the network's books when both programs are done with it and nothing is on the line.
func (f *flow) forget() {
	senderDone := f.sender.closed && (f.sender.gone || f.finArrived)
	if senderDone && f.receiver.closed && f.sent == f.arrived && f.read == f.arrived {
		delete(f.way.net.open, f)
		f.ring = ring{}
	}
}
