package gather

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/wire/relay"
)

// Of a gatherer with several addresses, one that is not reached takes its time once: the next connection is made where the last one was,
// and elsewhere only if the gatherer is not reached there any more. What the gatherer refuses at one address is asked for at no other. If
// it is reached nowhere, it is said what is in the way at each.
func TestAddressThatAnsweredIsDialledFirst(t *testing.T) {
	silent, refused := errors.New("silent"), &relay.Refusal{Text: "enough"}
	c := new(Client)
	for _, tt := range []struct {
		what   string
		at     map[string]error // others are silent
		dialed string
		err    string
	}{
		{"nowhere", nil, "a b c", "the gatherer's data port at a: silent; the gatherer's data port at b: silent; the gatherer's data port at c: silent"},
		{"at the second", map[string]error{"b": nil}, "a b", ""},
		{"there again", map[string]error{"a": nil, "b": nil}, "b", ""},
		{"at another", map[string]error{"c": nil}, "b a c", ""},
		{"refused", map[string]error{"b": refused}, "c a b", "the gatherer's data port at b: " + refused.Error()},
		{"refused there", map[string]error{"a": nil, "b": refused}, "b", "the gatherer's data port at b: " + refused.Error()},
	} {
		var dialed []string
		err := c.dialEach(t.Context(), []string{"a", "b", "c"}, func(address string) error {
			dialed = append(dialed, address)
			if err, answers := tt.at[address]; answers {
				return err
			}
			return silent
		})
		said := ""
		if err != nil {
			said = err.Error()
		}
		if strings.Join(dialed, " ") != tt.dialed || said != tt.err {
			t.Errorf("%s: dialled %v, and it ends with %q, want %s, and %q", tt.what, dialed, said, tt.dialed, tt.err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	var dialed []string
	err := new(Client).dialEach(ctx, []string{"a", "b"}, func(address string) error {
		dialed = append(dialed, address)
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !slices.Equal(dialed, []string{"a"}) {
		t.Errorf("after it was cancelled, %v were dialled: %v", dialed, err)
	}
}
