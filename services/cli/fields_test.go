package cli

import (
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// What managers refuse is told by the flag that the user gave, and not by the API's field, which the command's help does not have.
func TestRefusedFieldsAreToldAsFlags(t *testing.T) {
	for _, tt := range []struct {
		args      []string
		says, err string
	}{
		{[]string{"push"}, "--rate: is 10: want 4096 at least", "spec.max_bytes_per_second: is 10: want 4096 at least"},
		{[]string{"push"}, "--keep: is 48h0m0s: want less; --deadline: is no time", "spec.keep: is 48h0m0s: want less; spec.deadline: is no time"},
		{
			[]string{"push"},
			"--slow: evicts nobody without --slow-lag or --slow-lag-time",
			"spec.slow_member: evicts nobody without spec.slow_member.lag_bytes or spec.slow_member.lag_time",
		},
		{[]string{"replicate"}, "--rate: is 10; --to: \"ds\" does not begin at the root", "spec.max_bytes_per_second: is 10; spec.target_path: \"ds\" does not begin at the root"},
		{[]string{"replicate"}, "PATH: \"ds\" does not begin at the root", "spec.source_path: \"ds\" does not begin at the root"},
		{[]string{"token", "create"}, "--group: name those that the member may join", "groups: name those that the member may join"},
		{[]string{"group", "update"}, "--max-rate: is 10", "policy.limits.max_bytes_per_second: is 10"},
		{
			[]string{"group", "create"},
			"--slow: evicts nobody without --slow-lag-bytes or --slow-lag-time",
			"policy.slow_member: evicts nobody without policy.slow_member.lag_bytes or policy.slow_member.lag_time",
		},
		{[]string{"group", "get"}, "spec.keep: is none of this command's", "spec.keep: is none of this command's"},
	} {
		command, _, err := new(app).root().Find(tt.args)
		if err != nil {
			t.Fatal(err)
		}
		if got := inFlags(command, &sdk.Error{Code: sdk.InvalidArgument, Message: tt.err}); got != tt.says {
			t.Errorf("%v: %q, want %q", tt.args, got, tt.says)
		}
		if got := inFlags(command, &sdk.Error{Code: sdk.Conflict, Message: tt.err}); got != tt.err {
			t.Errorf("%v: of another code %q", tt.args, got)
		}
	}
}

// A group in use is deleted with a flag, which the managers do not know.
func TestGroupInUseSaysTheFlag(t *testing.T) {
	if hint := new(app).hint(&sdk.Error{Code: sdk.Conflict, Reason: "GROUP_IN_USE"}); hint != " (--force)" {
		t.Errorf("the hint is %q", hint)
	}
}

// A flag that cannot be read is told with what it takes, and not in the words of Go's parsers. Others say it themselves.
func TestFlagsThatCannotBeReadSayWhatTheyTake(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"group", "create", "x", "--max-members", "-1"}, `--max-members is "-1": want a number from 0 to 4294967295 (see 'groupcast group create --help')`},
		{[]string{"group", "create", "x", "--max-deliveries", "4294967296"}, `--max-deliveries is "4294967296": want a number from 0 to 4294967295 (see 'groupcast group create --help')`},
		{[]string{"push", "f", "--wait", "two"}, `--wait is "two": want a whole number (see 'groupcast push --help')`},
		{[]string{"push", "f", "--keep", "5"}, `--keep is "5": want a time, as 30s or 10m (see 'groupcast push --help')`},
		{[]string{"push", "f", "--stream=perhaps"}, `--stream is "perhaps": want true or false (see 'groupcast push --help')`},
		{[]string{"soma", "decode", "f", "-p", "65536"}, `--port is "65536": want a number from 0 to 65535 (see 'groupcast soma decode --help')`},
		{[]string{"soma", "model", "--c1", "fast"}, `--c1 is "fast": want a number (see 'groupcast soma model --help')`},
		{[]string{"push", "f", "--rate", "many"}, `invalid argument "many" for "--rate" flag: "many" is no number of bytes, as 512MiB or 4GiB (see 'groupcast push --help')`},
	} {
		root := new(app).root()
		root.SetArgs(tt.args)
		if err := root.Execute(); exitStatus(err) != exitUsage || err.Error() != tt.says {
			t.Errorf("%v: status %d: %v, want %s", tt.args, exitStatus(err), err, tt.says)
		}
	}
}
