package openapi

import (
	"fmt"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/feedfilter/feedfilter/activity"
)

// function is one that actions of the description call.
type function func(args ...any) (any, error)

// template fills in the description. It takes the part of text/template's language that the
// description uses: pipelines of one command, variables, if with else, and range over kinds.
// Package text/template calls methods by name. With it, the linker must keep every exported method
// of every type, and programs are larger by half.
type template struct {
	functions map[string]function
	lists     map[string][]activity.Kind
	variables []variable // those in scope, the innermost last
	text      strings.Builder
}

type variable struct {
	name  string
	value any
}

// fill returns the source with its actions executed.
func (t *template) fill(source string) (string, error) {
	names := make(map[string]any, len(t.functions))
	for name := range t.functions {
		names[name] = name
	}
	trees, err := parse.Parse("openapi.yaml", source, "", "", names)
	if err != nil {
		return "", err
	}
	tree := trees["openapi.yaml"]
	if err := t.walk(tree.Root, nil); err != nil {
		return "", err
	}
	return t.text.String(), nil
}

// walk executes a node; kind is what the dot stands for, nil outside of a range.
func (t *template) walk(node parse.Node, kind *activity.Kind) error {
	switch node := node.(type) {
	case *parse.ListNode:
		for _, one := range node.Nodes {
			if err := t.walk(one, kind); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode:
		t.text.Write(node.Text)
		return nil
	case *parse.ActionNode:
		value, err := t.pipeline(node.Pipe, kind)
		if err == nil && len(node.Pipe.Decl) == 0 {
			fmt.Fprint(&t.text, value)
		}
		return err
	case *parse.IfNode:
		return t.choose(node, kind)
	case *parse.RangeNode:
		return t.repeat(node, kind)
	default:
		return unknown(node)
	}
}

func unknown(node parse.Node) error {
	return fmt.Errorf("%s: not in the language of the description", node)
}

// choose executes one side of an if.
func (t *template) choose(node *parse.IfNode, kind *activity.Kind) error {
	outer := len(t.variables)
	defer func() { t.variables = t.variables[:outer] }()
	value, err := t.pipeline(node.Pipe, kind)
	switch {
	case err != nil:
		return err
	case value != false && value != "" && value != 0:
		return t.walk(node.List, kind)
	case node.ElseList != nil:
		return t.walk(node.ElseList, kind)
	default:
		return nil
	}
}

// repeat executes a range, once for each kind.
func (t *template) repeat(node *parse.RangeNode, kind *activity.Kind) error {
	value, err := t.command(node.Pipe.Cmds, kind)
	if err != nil {
		return err
	}
	kinds, ok := value.([]activity.Kind)
	if !ok || node.ElseList != nil || len(node.Pipe.Decl) > 1 {
		return unknown(node)
	}
	for _, one := range kinds {
		outer := len(t.variables)
		for _, name := range node.Pipe.Decl {
			t.variables = append(t.variables, variable{name.Ident[0], &one})
		}
		if err := t.walk(node.List, &one); err != nil {
			return err
		}
		t.variables = t.variables[:outer]
	}
	return nil
}

// pipeline returns the value of a pipeline, and assigns it to the variable that the pipeline
// declares or sets.
func (t *template) pipeline(pipe *parse.PipeNode, kind *activity.Kind) (any, error) {
	value, err := t.command(pipe.Cmds, kind)
	if err != nil || len(pipe.Decl) == 0 {
		return value, err
	}
	name := pipe.Decl[0].Ident[0]
	if !pipe.IsAssign {
		t.variables = append(t.variables, variable{name, value})
		return value, nil
	}
	for i, v := range slices.Backward(t.variables) {
		if v.name == name {
			t.variables[i].value = value
			return value, nil
		}
	}
	return nil, unknown(pipe)
}

// command calls the function that a command begins with, or returns the command's only value.
func (t *template) command(commands []*parse.CommandNode, kind *activity.Kind) (any, error) {
	if len(commands) != 1 {
		return nil, fmt.Errorf("%v: not one command", commands)
	}
	nodes := commands[0].Args
	name, isCall := nodes[0].(*parse.IdentifierNode)
	if isCall {
		nodes = nodes[1:]
	} else if len(nodes) > 1 {
		return nil, unknown(commands[0])
	}
	values := make([]any, len(nodes))
	for i, node := range nodes {
		value, err := t.value(node, kind)
		if err != nil {
			return nil, err
		}
		values[i] = value
	}
	if isCall {
		return t.functions[name.Ident](values...)
	}
	return values[0], nil
}

// value returns what an operand stands for.
func (t *template) value(node parse.Node, kind *activity.Kind) (any, error) {
	switch node := node.(type) {
	case *parse.StringNode:
		return node.Text, nil
	case *parse.FieldNode:
		if kind != nil {
			return member(kind, node.Ident, node)
		}
		if list, ok := t.lists[node.Ident[0]]; ok && len(node.Ident) == 1 {
			return list, nil
		}
	case *parse.VariableNode:
		for _, v := range slices.Backward(t.variables) {
			of, isKind := v.value.(*activity.Kind)
			switch {
			case v.name != node.Ident[0]:
			case len(node.Ident) == 1:
				return v.value, nil
			case isKind:
				return member(of, node.Ident[1:], node)
			}
		}
	}
	return nil, unknown(node)
}

// member returns what a path names in a kind.
func member(kind *activity.Kind, path []string, node parse.Node) (any, error) {
	switch strings.Join(path, ".") {
	case "Name":
		return kind.Name, nil
	case "Plural":
		return kind.Plural, nil
	case "Target.String":
		return kind.Target.String(), nil
	case "Effect.String":
		return kind.Effect.String(), nil
	case "Reverse":
		return kind.Reverse, nil
	case "Limit":
		return int(kind.Limit), nil
	case "Window":
		return kind.Window, nil
	default:
		return nil, unknown(node)
	}
}
