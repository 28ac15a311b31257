package view

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Manager is one of the managers as stored. Its message is shared: it must not be changed.
type Manager struct {
	*managerv1.ManagerRecord
	Changed store.Revision
}

// Name returns the manager's name.
func (m Manager) Name() string { return m.GetManager().GetName() }

// IsAway reports whether the manager is missed.
func (m Manager) IsAway() bool { return m.GetManager().GetAwayTime() != nil }

func (v *View) putManager(item store.Item) error {
	record := new(managerv1.ManagerRecord)
	if err := proto.Unmarshal(item.Value, record); err != nil {
		return err
	}
	v.managers[record.GetManager().GetName()] = Manager{record, item.Changed}
	return nil
}

// Manager returns a manager.
func (v *View) Manager(name string) (record Manager, found bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	record, found = v.managers[name]
	return record, found
}

// Managers returns all managers that are here or missed, in the order of their names.
func (v *View) Managers() (all []Manager) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, record := range v.managers {
		all = append(all, record)
	}
	slices.SortFunc(all, func(a, b Manager) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}
