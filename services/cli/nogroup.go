package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/groupcast/groupcast/internal/spell"
	"github.com/groupcast/groupcast/sdk"
)

var groupNotFound = regexp.MustCompile(`(?:^|: )group ("(?:[^"\\]|\\.)*") not found$`)

// noGroup adds to an error by which there is no such group which one may have been meant, and how groups are listed, for those who may
// do that.
func (a *app) noGroup(ctx context.Context, client *sdk.Client, err error) error {
	var reported *sdk.Error
	if !errors.As(err, &reported) || reported.Reason != "NOT_FOUND" {
		return err
	}
	said := groupNotFound.FindStringSubmatch(reported.Message)
	if said == nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, whoTimeout)
	defer cancel()
	groups, failed := client.Groups(asking)
	if isForbidden(failed) {
		return fmt.Errorf("%w (operators make groups: groupcast group create)", err)
	}
	names := make([]string, len(groups))
	for i, group := range groups {
		names[i] = group.Name
	}
	asked, _ := strconv.Unquote(said[1]) // the pattern has seen to that
	return fmt.Errorf("%w%s (groupcast group list shows all)", err, spell.DidYouMean(spell.Alike(asked, names)))
}
