package link

import "time"

// packet is a frame on its way, owned by exactly one fifo at a time.
type packet struct {
	frame []byte
	due   time.Duration // when it leaves the delay line
}

// fifo is a queue of packets that reuses its storage.
type fifo struct {
	items []packet
	first int
}

func (f *fifo) len() int { return len(f.items) - f.first }

func (f *fifo) push(p packet) {
	if f.first > 0 && len(f.items) == cap(f.items) {
		f.items = f.items[:copy(f.items, f.items[f.first:])]
		f.first = 0
	}
	f.items = append(f.items, p)
}

func (f *fifo) front() *packet { return &f.items[f.first] }

func (f *fifo) back() *packet { return &f.items[len(f.items)-1] }

func (f *fifo) pop() packet {
	p := f.items[f.first]
	f.items[f.first] = packet{}
	f.first++
	if f.first == len(f.items) {
		f.items, f.first = f.items[:0], 0
	}
	return p
}
