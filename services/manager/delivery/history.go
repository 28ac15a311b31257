package delivery

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Why a tree changes, beside the causes of an agent's loss.
const (
	causeCreated  = "created"
	causeJoined   = "member_joined"
	causeGone     = "member_gone"
	causeReturned = "agent_returned"
	causeLags     = "agent_lags"
	causeGives    = "agent_gives_slowly"
	causeNearer   = "parent_nearer"
	causeUnfed    = "member_unfed"
	causeDamaged  = "bytes_damaged"
)

var causes = []string{
	causeCreated, causeJoined, causeGone, causeReturned,
	causeOffline, causeClosed, causeSilent, causeBlamed, causeSlow, causeIdle, causeFull, causeLags, causeGives, causeNearer, causeUnfed,
	causeDamaged,
}

// longestDetail is about how long the detail of one change gets.
const longestDetail = 200

// history is why a tree changes, the latest last.
type history []*groupv1.TreeChange

// because notes a cause. What happens to several nodes for the same cause is one change.
func (h *history) because(cause, detail string) {
	if len(*h) == 0 || (*h)[len(*h)-1].GetCause() != cause {
		*h = append(*h, &groupv1.TreeChange{Cause: cause, Detail: detail})
		return
	}
	switch last := (*h)[len(*h)-1]; {
	case len(last.GetDetail()) < longestDetail:
		last.Detail += "; " + detail
	case last.GetDetail()[len(last.GetDetail())-1] != '.':
		last.Detail += "; and more."
	}
}

// after returns the changes to keep once these follow the others. version is that of the tree that they make.
func (h history) after(others []*groupv1.TreeChange, version uint64, now time.Time) []*groupv1.TreeChange {
	for _, change := range h {
		change.Version, change.Time = version, timestamppb.New(now)
	}
	all := append(others[:len(others):len(others)], h...)
	return all[max(0, len(all)-view.KeptChanges):]
}

// String says why the tree changed, on one line.
func (h history) String() string {
	var all []string
	for _, change := range h {
		all = append(all, change.GetCause()+" ("+change.GetDetail()+")")
	}
	return strings.Join(all, ", ")
}
