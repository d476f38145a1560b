package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"orgops/apiclient"
)

// longestSecret bounds a secret's file, in bytes: tokens are some KB.
const longestSecret = 64 << 10

// Secret reads a secret from the environment: the variable name, or the file that name_FILE
// names, without white space around it. It is empty if neither is set. The error is one of
// settings and never contains the secret.
func Secret(getenv func(string) string, name string) (string, error) {
	value, file := getenv(name), getenv(name+"_FILE")
	switch {
	case file == "":
		return value, nil
	case value != "":
		return "", Usage(fmt.Errorf("%s and %s_FILE are both set: unset one of them", name, name))
	}
	value, err := secretFile(file)
	if err != nil {
		return "", Usage(fmt.Errorf("%s_FILE: %w", name, err))
	}
	return value, nil
}

// secretFile reads a secret from a file, without white space around it.
func secretFile(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, longestSecret+1))
	if err != nil {
		return "", err
	}
	if len(text) > longestSecret {
		return "", fmt.Errorf("%s is longer than %d bytes, too long for a secret", file, longestSecret)
	}
	value := strings.TrimSpace(string(text))
	if value == "" {
		return "", errors.New(file + " is empty")
	}
	return value, nil
}

// FileOrEnv reads a secret from the file at path, or from the environment variable name. It
// is zero if neither is given. Errors begin with what, and never contain the secret.
func FileOrEnv(getenv func(string) string, path, name, what string) (apiclient.Secret, error) {
	switch {
	case path != "" && name != "":
		return apiclient.Secret{}, fmt.Errorf("%s: a file and an environment variable are both named: name one of them", what)
	case path != "":
		value, err := secretFile(path)
		if err != nil {
			return apiclient.Secret{}, fmt.Errorf("%s: %w", what, err)
		}
		return apiclient.NewSecret(value), nil
	case name != "" && getenv(name) == "":
		return apiclient.Secret{}, fmt.Errorf("%s: the environment variable %.80q is not set, or empty", what, name)
	case name != "":
		return apiclient.NewSecret(getenv(name)), nil
	}
	return apiclient.Secret{}, nil
}
