// Command kubecheck reads Kubernetes manifests from standard input, as kubectl
// kustomize writes them, and decodes each document strictly into the type that its
// apiVersion and kind name: a member that is unknown, stands twice or has a value of
// another type is an error, and so is a kind that is not known here. It then looks
// for what a cluster would refuse or not do without a word: selectors that match
// nothing, ports and volumes that are not there, a user of Redis with another's
// password, pods that the "restricted" profile does not let in.
//
// It is a module of its own, so that the project does not depend on Kubernetes.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	if err := check(os.Stdin); err != nil {
		log.SetFlags(0)
		log.Fatal(err)
	}
}

func check(in io.Reader) error {
	known := runtime.NewScheme()
	if err := scheme.AddToScheme(known); err != nil {
		return err
	}
	addOperators(known)
	strict := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	var all []runtime.Object
	var failed []error
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		object, kind, err := strict.Decode(text, nil, nil)
		if err != nil {
			failed = append(failed, fmt.Errorf("%w, in:\n%.300s", err, text))
			continue
		}
		if kind.Kind == "Secret" {
			failed = append(failed, errors.New("a Secret is in the manifests: it belongs into the cluster alone"))
		}
		all = append(all, object)
	}
	if len(all) == 0 {
		failed = append(failed, errors.New("no manifest was read"))
	}
	return errors.Join(append(failed, together(all)...)...)
}
