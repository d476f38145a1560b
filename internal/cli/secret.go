package cli

import (
	"fmt"

	"orgops/apiclient"
	"orgops/internal/untrusted"
)

// Secret reads a secret from the environment: the variable name, or the file that name_FILE
// names. It is empty if neither is set. The error is one of settings and never contains the
// secret.
func Secret(getenv func(string) string, name string) (string, error) {
	value := getenv(name)
	file := getenv(name + "_FILE")
	var secret apiclient.Secret
	var err error
	switch {
	case value != "" && file != "":
		return "", Usage(fmt.Errorf("%s and %s_FILE are both set: unset one of them", name, name))
	case file != "":
		name += "_FILE"
		secret, err = apiclient.ReadSecretFile(file, apiclient.ParseSecret)
	case value != "":
		secret, err = apiclient.ParseSecret(value)
	}
	if err != nil {
		return "", Usage(fmt.Errorf("%s: %w", name, err))
	}
	return secret.Reveal(), nil
}

// FileOrEnv reads a secret from the file at path, or from the environment variable name, and
// parses it. It is zero if neither is given. Errors begin with what, and never contain the secret.
func FileOrEnv(getenv func(string) string, path, name, what string,
	parse func(string) (apiclient.Secret, error)) (secret apiclient.Secret, err error) {
	switch {
	case path != "" && name != "":
		return secret, fmt.Errorf("%s: a file and an environment variable are both named: name one of them", what)
	case path != "":
		secret, err = apiclient.ReadSecretFile(path, parse)
	case name != "" && getenv(name) == "":
		err = fmt.Errorf("the environment variable %s is not set, or empty", untrusted.Value(name))
	case name != "":
		if secret, err = parse(getenv(name)); err != nil {
			err = fmt.Errorf("the environment variable %s: %w", untrusted.Value(name), err)
		}
	}
	if err != nil {
		return apiclient.Secret{}, fmt.Errorf("%s: %w", what, err)
	}
	return secret, nil
}
