package cli

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// A tree is drawn with how much each node has and how fast more comes, as far as a screen has lines for it.
func TestTreeIsDrawn(t *testing.T) {
	d := sdk.Delivery{
		State: sdk.DeliveryRunning, Length: 8 << 20, Members: 3, Complete: 1,
		Tree: []sdk.TreeNode{
			{ID: "member/s", Bytes: 8 << 20},
			{ID: "agent/a1", Parent: "member/s", Bytes: 6 << 20, BytesPerSecond: 3 << 20},
			{ID: "member/m1", Parent: "agent/a1", Bytes: 8 << 20, BytesPerSecond: 1 << 20},
			{ID: "agent/a2", Parent: "agent/a1", Bytes: 4 << 20, BytesPerSecond: 2 << 20},
			{ID: "member/m2", Parent: "agent/a2", Bytes: 2 << 20, BytesPerSecond: 1 << 20},
			{ID: "member/m3", Parent: "agent/a2", Absent: true},
		},
	}
	lines := treeLines(d, 80, 10)
	want := []string{
		"member/s            100%             ",
		"└─ agent/a1          75%    3.0 MiB/s",
		"   ├─ member/m1     100%             ",
		"   └─ agent/a2       50%    2.0 MiB/s",
		"      ├─ member/m2   25%    1.0 MiB/s",
		"      └─ member/m3    0%       absent",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("drawn as\n%s", strings.Join(lines, "\n"))
	}
	if short := treeLines(d, 80, 3); !slices.Equal(short, []string{want[0], want[1], "and 4 more: 1 of 3 complete"}) {
		t.Errorf("in three lines:\n%s", strings.Join(short, "\n"))
	}
}

// On a terminal a delivery's tree, with the rates on its edges, is drawn over the one before, also where a node went elsewhere and another one came.
func TestTreeIsDrawnOverTheOneBefore(t *testing.T) {
	terminal, err := os.Open(os.DevNull) // of no size, which counts as 80x24
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	var drawn bytes.Buffer
	shown := newProgress(&app{stderr: &drawn})
	shown.terminal, shown.tree = terminal, true
	d := sdk.Delivery{
		ID: "0123456789", Name: "model", Group: "g", State: sdk.DeliveryRunning, Length: 8 << 20, Sealed: true, Members: 2,
		Receipts: []sdk.Receipt{{Member: "m1", State: sdk.ReceiptReceiving}, {Member: "m2", State: sdk.ReceiptReceiving}},
		Tree: []sdk.TreeNode{
			{ID: "member/s", Bytes: 8 << 20},
			{ID: "agent/a1", Parent: "member/s", Bytes: 2 << 20, BytesPerSecond: 3 << 20},
			{ID: "member/m1", Parent: "agent/a1", Bytes: 1 << 20, BytesPerSecond: 1 << 20},
			{ID: "member/m2", Parent: "agent/a1"},
		},
	}
	const title, cleared = "01234567  model → g  8.0 MiB\x1b[K\n", "\x1b[J"
	shown.show(d)
	if want := title +
		"member/s         100%             \x1b[K\n" +
		"└─ agent/a1       25%    3.0 MiB/s\x1b[K\n" +
		"   ├─ member/m1   12%    1.0 MiB/s\x1b[K\n" +
		"   └─ member/m2    0%             \x1b[K\n" + cleared; drawn.String() != want {
		t.Errorf("at first it draws\n%q, want\n%q", drawn.String(), want)
	}
	drawn.Reset()
	d.Tree = []sdk.TreeNode{
		{ID: "member/s", Bytes: 8 << 20},
		{ID: "agent/a1", Parent: "member/s", Bytes: 6 << 20, BytesPerSecond: 2 << 20},
		{ID: "member/m1", Parent: "agent/a1", Bytes: 8 << 20, BytesPerSecond: 1 << 20},
		{ID: "agent/a2", Parent: "agent/a1", Bytes: 4 << 20, BytesPerSecond: 5 << 20},
		{ID: "member/m2", Parent: "agent/a2", Bytes: 2 << 20, BytesPerSecond: 4 << 20},
	}
	shown.show(d)
	if want := "\r\x1b[5A" + title +
		"member/s            100%             \x1b[K\n" +
		"└─ agent/a1          75%    2.0 MiB/s\x1b[K\n" +
		"   ├─ member/m1     100%             \x1b[K\n" +
		"   └─ agent/a2       50%    5.0 MiB/s\x1b[K\n" +
		"      └─ member/m2   25%    4.0 MiB/s\x1b[K\n" + cleared; drawn.String() != want {
		t.Errorf("then it draws\n%q, want\n%q", drawn.String(), want)
	}
	drawn.Reset()
	if shown.end(); drawn.String() != "\r\x1b[6A\x1b[J" {
		t.Errorf("it ends with %q", drawn.String())
	}
}

// On a narrow screen names are cut, and not how much a node has and how fast more comes.
func TestTreeFitsANarrowScreen(t *testing.T) {
	d := sdk.Delivery{State: sdk.DeliveryRunning, Length: 8 << 20, Tree: []sdk.TreeNode{
		{ID: "member/sender-of-models"},
		{ID: "agent/a-node-with-a-long-name", Parent: "member/sender-of-models", Bytes: 6 << 20, BytesPerSecond: 3 << 20},
	}}
	want := []string{
		"member/se…f-models    0%             ",
		"└─ agent/…ong-name   75%    3.0 MiB/s",
	}
	if lines := treeLines(d, 38, 10); !slices.Equal(lines, want) {
		t.Errorf("drawn as\n%s", strings.Join(lines, "\n"))
	}
}

// If there is nothing to show, that is not a failure: something was not found.
func TestNoDeliveryIsNotFound(t *testing.T) {
	if got := exitStatus(errNoDelivery); got != exitNotFound {
		t.Errorf("exit status %d, want %d", got, exitNotFound)
	}
}

// A tree that does not fit into an answer is not said to be forgotten: what is there of it is shown.
func TestTreeThatIsLeftOut(t *testing.T) {
	d := sdk.Delivery{ID: "0123456789", State: sdk.DeliveryRunning, Members: 10_000, LeftOut: []string{"links", "tree"}}
	d.TreeClusters = []sdk.TreeCluster{{Name: "zone-a", Agents: 10, Members: 10_000, Entered: 1}}
	var out, said bytes.Buffer
	a := &app{stdout: &out, stderr: &said}
	if err := a.printTree(d); err != nil || !strings.Contains(said.String(), "of 10000 members the tree does not fit") || !strings.Contains(out.String(), "zone-a") {
		t.Errorf("%v: %q, %q", err, said.String(), out.String())
	}
	d.LeftOut = nil
	if err := a.printTree(d); err == nil || !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("without a tree: %v", err)
	}
}
