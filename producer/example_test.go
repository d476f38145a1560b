package producer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"orgops/producer"
)

// A service submits a domain for verification as soon as its customer has registered it. The
// id follows from the registration, so that the service can submit the row again when it
// does not know whether it has. The command enqueue runs show takes the id.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()}) // that of the workers
	defer func() { _ = rdb.Close() }()
	ctx, p := context.Background(), producer.New(rdb)

	row := producer.Row{
		ID: "signup-4711", Kind: producer.Verify,
		Row: []byte(`{"organization_id": "org_1", "discovery_domain_id": "ord_1"}`),
	}
	fmt.Println(p.Submit(ctx, row))
	fmt.Println(p.Submit(ctx, row)) // harmless

	row.Row = []byte(`{"organization_id": "org_1", "discovery_domain_id": "ord_2"}`)
	_, err = p.Submit(ctx, row)
	fmt.Println("another row:", errors.Is(err, producer.ErrMismatch))
	// Output:
	// signup-4711 <nil>
	// signup-4711 <nil>
	// another row: true
}

// Removals of clients that are submitted one by one wait for others of their organization:
// one request removes them all.
func ExampleProducer_Submit() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx, p := context.Background(), producer.New(rdb)

	for _, client := range []string{"client_1", "client_2", "no client"} {
		id, err := p.Submit(ctx, producer.Row{
			ID: "left-" + client[len(client)-1:], Kind: producer.Remove, BatchWait: 5 * time.Second,
			Row: fmt.Appendf(nil, `{"organization_id": "org_1", "client_id": %q}`, client),
		})
		fmt.Printf("%q %t\n", id, err == nil)
	}
	// Output:
	// "left-1" true
	// "left-2" true
	// "" false
}
