package links_test

import (
	"strings"
	"testing"

	"github.com/groupcast/groupcast/e2e/links"
)

// What was lost with a link that broke, or was sent twice, is not a contradiction; everything else is.
func TestBothEndsAgree(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		sent, landed, received string
		agree                  bool
	}{
		{"all came", "100", "100", "100", true},
		{"some was lost", "100", "60", "80", true},
		{"sent twice", "130", "100", "120", true},
		{"more came than was sent", "100", "100", "101", false},
		{"less came than the child had", "100", "100", "99", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var book links.Book
			book.Read(`time=t level=DEBUG msg="a link was used" agent=a1 delivery=d child=m1 sent_bytes=` + tt.sent + ` landed_bytes=` + tt.landed + ` end=<nil>
				msg="something else" agent=a1 delivery=d child=m1 sent_bytes=7
				msg="a link was used" member=m1 delivery=d parent=a1 received_bytes=` + tt.received + ` end="link ended: moved"`)
			err := book.Check(func(string, string) bool { return false })
			if (err == nil) != tt.agree {
				t.Errorf("it says: %v", err)
			}
			if !tt.agree && !strings.Contains(err.Error(), "a1 sent "+tt.sent+" bytes to m1") {
				t.Errorf("it says: %v", err)
			}
			if err := book.Check(func(string, string) bool { return true }); err != nil {
				t.Errorf("nodes that say nothing: %v", err)
			}
		})
	}
}

// An agent says of which role a child is: of an agent, before its name.
func TestAgentBelowAnAgent(t *testing.T) {
	var book links.Book
	book.Read("msg=\"a link was used\" agent=a1 delivery=d child=agent/a2 sent_bytes=3 landed_bytes=3\n" +
		"msg=\"a link was used\" agent=a2 delivery=d parent=a1 received_bytes=3\n")
	if err := book.Check(func(string, string) bool { return false }); err != nil {
		t.Error(err)
	}
}

// What several parents sent one after another is added up for the child.
func TestReceivedFromAllParents(t *testing.T) {
	var book links.Book
	book.Read("msg=\"a link was used\" member=m1 delivery=d parent=a1 received_bytes=3\n" +
		"msg=\"a link was used\" member=m1 delivery=d parent=a2 received_bytes=4\n" +
		"msg=\"a link was used\" member=m1 delivery=other parent=a2 received_bytes=5\n")
	if got := book.Received("d", "m1"); got != 7 {
		t.Errorf("%d bytes came, want 7", got)
	}
	if got := book.Carried(); got != 12 {
		t.Errorf("%d bytes came over all ways, want 12", got)
	}
}
