package delivery

import "errors"

// Errors that the API's edge tells apart. Each is wrapped with what it is about.
var (
	// ErrNoReceivers says that nobody would get the delivery.
	ErrNoReceivers = errors.New("no receivers: no other member with the role receive is joined")
	// ErrNoTree says that no tree keeps the latency bound.
	ErrNoTree = errors.New("no tree of session agents fits")
	// ErrTooMany says that as many deliveries run as may.
	ErrTooMany = errors.New("as many deliveries run as may")
	// ErrManyMembers says that a group has more members than a delivery can have.
	ErrManyMembers = errors.New("more members than a delivery can have")
	// ErrTooLarge says that an object is larger than the group's policy allows.
	ErrTooLarge = errors.New("the object is larger than the group's policy allows")
	// ErrSession says that the session in which the caller acts has ended.
	ErrSession = errors.New("the session has ended: join again")
	// ErrNoSender says that the member joined without the role send.
	ErrNoSender = errors.New("the member joined without the role send")
	// ErrSealed says that the delivery was sealed with another length or root.
	ErrSealed = errors.New("the delivery was sealed with another length or root")
	// ErrNotSealed says that nobody can be complete yet.
	ErrNotSealed = errors.New("the delivery is not sealed yet: nobody can be complete")
	// ErrMismatch says that what a member has is not what was sealed.
	ErrMismatch = errors.New("length or root are not those that were sealed")
	// ErrEnded says that the delivery has ended.
	ErrEnded = errors.New("the delivery has ended")
	// ErrNoPart says that a member has no part in the delivery.
	ErrNoPart = errors.New("the member has no part in the delivery")
	// ErrAmbiguous says that several deliveries have ids that begin with the given digits.
	ErrAmbiguous = errors.New("several deliveries begin with these digits: give more of them")
)

// Why a delivery fails, at one member or as a whole. The words are those of the
// API, of log fields and of metric labels.
const (
	SenderLost    = "sender_lost"
	SourceChanged = "source_changed"
	Canceled      = "canceled"
	Deadline      = "deadline"
	Slow          = "slow"
	Left          = "left"
	NoRoom        = "no_room"
	Damaged       = "damaged"
	Refused       = "refused"
	Superseded    = "superseded" // a later delivery has brought another object of the same name
	NoPath        = "no_path"
	Failed        = "failed"
)

// reasons are all of them; a metric has a series for each.
var reasons = []string{SenderLost, SourceChanged, Canceled, Deadline, Slow, Left, NoRoom, Damaged, Refused, Superseded, NoPath, Failed}

// memberReasons are those that a member itself can give.
var memberReasons = []string{Canceled, Slow, NoRoom, Damaged, Refused, Superseded, NoPath, Failed}

// senderReasons are those that a sender can give.
var senderReasons = []string{SourceChanged, NoRoom, Failed}
