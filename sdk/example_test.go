package sdk_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os/exec"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// A program joins a group, sees who else is there, and leaves.
func Example() {
	ctx := context.Background()
	client, err := sdk.Open(adminFile)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	group, err := client.CreateGroup(ctx, "models", sdk.Policy{AckLevel: sdk.Received})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("group %s: %s, %s\n", group.Name, group.Policy.ControlMode, group.Policy.AckLevel)

	session, err := client.Join(ctx, sdk.Join{
		Group: "models", Name: "node-7", Node: "rack-2", Addresses: []string{"10.0.0.7:7410"}, Roles: []sdk.Role{sdk.Receive},
	})
	if err != nil {
		log.Fatal(err)
	}
	members, err := session.Members(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, member := range members {
		fmt.Println(member.Name, member.Node, member.Addresses, member.Roles, member.State)
	}
	if err := session.Leave(ctx); err != nil {
		log.Fatal(err)
	}
	members, err = client.Members(ctx, "models")
	fmt.Println(len(members), "members", err)
	if err := client.DeleteGroup(ctx, "models", false); err != nil {
		log.Fatal(err)
	}
	// Output:
	// group models: hop, received
	// node-7 rack-2 [10.0.0.7:7410] [receive] active
	// 0 members <nil>
}

// A watch begins with the members as they are. Every change follows.
func ExampleSession_Events() {
	ctx := context.Background()
	client, err := sdk.Open(adminFile)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, err := client.CreateGroup(ctx, "watched", sdk.Policy{}); err != nil {
		log.Fatal(err)
	}
	alice, err := client.Join(ctx, sdk.Join{Group: "watched", Name: "alice"})
	if err != nil {
		log.Fatal(err)
	}
	defer alice.Close()

	var bob *sdk.Session
	for event, err := range alice.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Change {
		case "": // the snapshot
			fmt.Println("at first:", len(event.Snapshot), "member")
			if bob, err = client.Join(ctx, sdk.Join{Group: "watched", Name: "bob"}); err != nil {
				log.Fatal(err)
			}
		case sdk.Added:
			fmt.Println(event.Member.Name, "has come")
			if err := bob.Leave(ctx); err != nil {
				log.Fatal(err)
			}
		case sdk.Removed:
			fmt.Println(event.Member.Name, "has", event.Member.State)
			if err := client.DeleteGroup(ctx, "watched", true); err != nil {
				log.Fatal(err)
			}
			return
		}
	}
	// Output:
	// at first: 1 member
	// bob has come
	// bob has left
}

// Errors have a code to branch on, and a reason that says more.
func ExampleCodeOf() {
	client, err := sdk.Open(adminFile)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, err = client.Group(context.Background(), "nothing")
	var failure *sdk.Error
	if sdk.CodeOf(err) == sdk.NotFound && errors.As(err, &failure) {
		fmt.Println(failure.Reason+":", err)
	}
	// Output:
	// NOT_FOUND: group "nothing" not found
}

// A file goes to all replicators of a LAN.
func ExampleClient_Replicate() {
	ctx := context.Background()
	client, err := sdk.Open("admin.yaml")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	begun, err := client.Replicate(ctx, sdk.ReplicationSpec{
		SourceNode: "store-1", SourcePath: "/srv/disk.img", TargetPath: "/srv/images", Selector: "lan=rack1",
	})
	if err != nil {
		log.Fatal(err)
	}
	for r, err := range client.WatchReplication(ctx, begun.ID) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %d of %d complete\n", r.State, r.Complete, r.ReplicaCount)
		for _, replica := range r.Replicas {
			if replica.State == sdk.ReplicaFailed {
				fmt.Println(replica.Name, replica.Reason, replica.Detail)
			}
		}
	}
}

// A program receives all that is sent to its group: objects into a directory, streams into a pipe.
func ExampleSession_Receive() {
	ctx := context.Background()
	client, err := sdk.Open("member.yaml")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := client.Join(ctx, sdk.Join{Group: "models", Name: "node-7", Roles: []sdk.Role{sdk.Receive}})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	options := sdk.ReceiveOptions{
		Into: "/srv/models",
		Stream: func(in sdk.Incoming) (sdk.StreamWriter, error) {
			from, to := io.Pipe()
			go func() { // the reader learns by an error that not all came
				lines := bufio.NewScanner(from)
				for lines.Scan() {
					fmt.Println(in.Name, lines.Text())
				}
				fmt.Println(in.Name, "ended:", lines.Err())
				from.CloseWithError(lines.Err()) // a line was too long: nobody reads on
			}()
			return to, nil
		},
	}
	for arrived, err := range session.Receive(ctx, options) {
		if err != nil {
			log.Fatal(err) // the session has ended
		}
		fmt.Println(arrived.Name, arrived.Path, arrived.Bytes, arrived.Err)
	}
}

// A file is sent to all members that receive, and the program learns who has it.
func ExampleSession_Send() {
	ctx := context.Background()
	client, err := sdk.Open("member.yaml")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := client.Join(ctx, sdk.Join{Group: "models", Name: "builder", Roles: []sdk.Role{sdk.Send}})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	out, err := session.Send(ctx, "model.bin", sdk.SendOptions{AckLevel: sdk.Durable, Deadline: 10 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	delivery, err := out.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(delivery.State)
	for _, receipt := range delivery.Receipts {
		fmt.Println(receipt.Member, receipt.State, receipt.Reason)
	}
}

// What a command says is sent as it comes.
func ExampleSession_SendStream() {
	ctx := context.Background()
	client, err := sdk.Open("member.yaml")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := client.Join(ctx, sdk.Join{Group: "watchers", Name: "sensor", Roles: []sdk.Role{sdk.Send}})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	command := exec.CommandContext(ctx, "journalctl", "--lines=100")
	said, err := command.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := command.Start(); err != nil {
		log.Fatal(err)
	}
	out, err := session.SendStream(ctx, said, sdk.SendOptions{Name: "journal"})
	if err != nil {
		log.Fatal(err)
	}
	delivery, err := out.Wait(ctx)
	fmt.Println(delivery.State, err, command.Wait())
}
