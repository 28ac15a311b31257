package view

import (
	"google.golang.org/protobuf/proto"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Gatherer is a gatherer as stored: without its state, which is in the leader's memory. Its
// message is shared: it must not be changed.
type Gatherer struct {
	*gatherv1.Gatherer
	Changed store.Revision
}

func (v *View) putGatherer(item store.Item) error {
	record := new(gatherv1.Gatherer)
	if err := proto.Unmarshal(item.Value, record); err != nil {
		return err
	}
	v.gatherers[record.GetName()] = Gatherer{record, item.Changed}
	return nil
}

// Gatherer returns a gatherer.
func (v *View) Gatherer(name string) (record Gatherer, found bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	record, found = v.gatherers[name]
	return record, found
}

// Gatherers returns up to limit gatherers whose names come after the one given.
func (v *View) Gatherers(after string, limit int) (page []*gatherv1.Gatherer, more bool) {
	return cut(v.AllGatherers(), after, limit)
}

// AllGatherers returns the gatherers, by name: more than one message may hold.
func (v *View) AllGatherers() (all []*gatherv1.Gatherer) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, record := range v.gatherers {
		all = append(all, record.Gatherer)
	}
	sortByName(all)
	return all
}
