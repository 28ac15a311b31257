package view

import (
	"hash/fnv"
	"iter"
	"maps"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Receipt is a receipt as stored. Its message is shared: it must not be changed.
type Receipt struct {
	*groupv1.Receipt
	Changed store.Revision
}

// Receipts are the receipts of a delivery, by member. They are a value, and a value that follows from another shares most with it: the receipts
// of a delivery to 10,000 members are asked for by each member that has ended, and with each report that somebody watches.
type Receipts struct {
	shelves *[receiptShelves]map[string]Receipt // the maps never change
	count   int
}

// receiptShelves is the number of maps over which receipts are spread: adding a receipt copies one map.
const receiptShelves = 128

func shelfOf(member string) int {
	sum := fnv.New32a()
	sum.Write([]byte(member))
	return int(sum.Sum32() % receiptShelves)
}

// Of returns the receipt of a member.
func (r Receipts) Of(member string) (receipt Receipt, has bool) {
	if r.shelves == nil {
		return Receipt{}, false
	}
	receipt, has = r.shelves[shelfOf(member)][member]
	return receipt, has
}

// Len returns how many there are.
func (r Receipts) Len() int { return r.count }

// All yields all receipts, in no order.
func (r Receipts) All() iter.Seq2[string, Receipt] {
	return func(yield func(string, Receipt) bool) {
		if r.shelves == nil {
			return
		}
		for _, shelf := range r.shelves {
			for member, receipt := range shelf {
				if !yield(member, receipt) {
					return
				}
			}
		}
	}
}

// With returns the receipts with one more, or with another one in its place.
func (r Receipts) With(member string, receipt Receipt) Receipts {
	return r.change(member, func(shelf map[string]Receipt) { shelf[member] = receipt })
}

// Without returns the receipts without that of a member.
func (r Receipts) Without(member string) Receipts {
	if _, has := r.Of(member); !has {
		return r
	}
	return r.change(member, func(shelf map[string]Receipt) { delete(shelf, member) })
}

func (r Receipts) change(member string, change func(shelf map[string]Receipt)) Receipts {
	next, at := new([receiptShelves]map[string]Receipt), shelfOf(member)
	if r.shelves != nil {
		*next = *r.shelves
	}
	shelf := make(map[string]Receipt, len(next[at])+1)
	maps.Copy(shelf, next[at])
	change(shelf)
	count := r.count + len(shelf) - len(next[at])
	next[at] = shelf
	return Receipts{next, count}
}
