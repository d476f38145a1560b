// The command service is a service of another module: it submits a domain, follows it for a while,
// and cancels it. Its argument is the URL of Redis. The test that runs it makes its module.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/producer"
)

func main() {
	options, err := redis.ParseURL(os.Args[1]) // that of the workers
	if err != nil {
		log.Fatal(err)
	}
	rdb := redis.NewClient(options)
	defer func() { _ = rdb.Close() }()
	if err := run(context.Background(), producer.New(rdb)); err != nil {
		log.Print(err)
	}
}

func run(ctx context.Context, p *producer.Producer) error {
	id, err := p.Submit(ctx, producer.Row{
		ID: "signup-4711", Kind: producer.Verify,
		Row: []byte(`{"organization_id": "org_1", "domain": "acme.example"}`),
	})
	if err != nil {
		return err
	}
	for range 3 { // a token may take days; a service keeps the id and asks again
		status, err := p.Status(ctx, "", id)
		if err != nil {
			return err
		}
		fmt.Printf("%s: outcome %q, %s\n", id, status.Outcome, status.Reason)
		if status.Outcome != "" {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := p.Cancel(ctx, "", id, "signup service"); err != nil && !errors.Is(err, producer.ErrNotFound) {
		return err
	}
	status, err := p.Status(ctx, "", id)
	fmt.Printf("%s: outcome %q\n", id, status.Outcome)
	return err
}
