//! Compiles expressions: checks what is supported, once, before they are evaluated.

use super::functions::Function;
use super::value::Value;
use super::{CompileError, Library, kubelet};
use cel::common::ast::{self, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use std::sync::Arc;

/// The longest expression, in bytes, as in the API (`CELSelectorExpressionMaxLength`).
const MAX_LENGTH: usize = 10 * 1024;
/// How deeply expressions may be nested, which bounds the stack that parsing and evaluation use.
const MAX_DEPTH: usize = 64;
/// How deeply brackets and conditionals may be nested together; the parser uses several frames of the stack for each.
const MAX_BRACKETS: u16 = 24;
/// How many characters of operators an expression may have: chains of operators are nested expressions.
const MAX_OPERATORS: u16 = 400;

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) enum Compiled {
    Literal(Value),
    /// A variable of the library.
    Fact(Arc<str>),
    /// A variable of the expression.
    Variable(Arc<str>),
    Select(Box<Compiled>, Arc<str>),
    Has(Box<Compiled>, Arc<str>),
    Index(Box<Compiled>, Box<Compiled>),
    Not(Box<Compiled>),
    NotStrictlyFalse(Box<Compiled>),
    Negate(Box<Compiled>),
    And(Box<Compiled>, Box<Compiled>),
    Or(Box<Compiled>, Box<Compiled>),
    Conditional(Box<[Compiled; 3]>),
    Binary(Binary, Box<Compiled>, Box<Compiled>),
    /// A function, its target if it is a method, and its arguments.
    Call(Function, Option<Box<Compiled>>, Vec<Compiled>),
    List(Vec<Compiled>),
    Map(Vec<(Compiled, Compiled)>),
    /// `cel.bind`.
    Bind(Arc<str>, Box<Compiled>, Box<Compiled>),
    Comprehension(Box<Comprehension>),
}

/// `exists`, `all` and their like.
#[derive(Clone, Debug)]
pub(super) struct Comprehension {
    pub(super) range: Compiled,
    pub(super) variable: Arc<str>,
    pub(super) result: Arc<str>,
    pub(super) start: Compiled,
    pub(super) condition: Compiled,
    pub(super) step: Compiled,
    pub(super) end: Compiled,
}

/// An operator with two operands, both of which are always evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Equals,
    Differs,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

pub(super) fn compile(source: &str, library: Library) -> Result<Compiled, CompileError> {
    if source.len() > MAX_LENGTH {
        return Err(CompileError::TooComplex("longer than 10 KiB"));
    }
    check(source)?;
    // A text or a comment may hide brackets from the check.
    let parser = cel::parser::Parser::default().max_recursion_depth(MAX_BRACKETS);
    let parsed = parser.parse(source).map_err(|errors| {
        let messages: Vec<&str> = errors.errors.iter().map(|error| error.msg.as_str()).collect();
        CompileError::Syntax(messages.join("; "))
    })?;
    Scope { library, variables: Vec::new() }.expression(&parsed, 0)
}

/// Counts brackets and operators, because the recursion of the parser and of what it returns has no other limit. Those in texts count
/// too, so that the number does not depend on where texts end.
fn check(source: &str) -> Result<(), CompileError> {
    let (mut depth, mut conditionals, mut operators) = (0_u16, 0_u16, 0_u16);
    let (mut quote, mut before) = (None, [b'('; 2]);
    for byte in source.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'?' | b'.' | b'&' | b'|' => operators += 1,
            _ => {}
        }
        // Each may be in the last part of the one before.
        conditionals += u16::from(byte == b'?');
        if depth + conditionals > MAX_BRACKETS {
            return Err(CompileError::TooComplex("nested too deeply"));
        }
        match (quote, byte) {
            (Some(end), _) if byte == end && before[1] != b'\\' => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            // The parser reads an even number of them as one. The first of two minuses may be an operator between two values.
            (None, b'!') if before[1] == b'!' => return Err(unsupported("two ! or - in a row")),
            (None, b'-') if before[1] == b'-' && !is_end_of_value(before[0]) => {
                return Err(unsupported("two ! or - in a row"));
            }
            _ => {}
        }
        // An escaped backslash escapes nothing.
        before = [before[1], if [before[1], byte] == [b'\\'; 2] { b' ' } else { byte }];
    }
    if operators > MAX_OPERATORS {
        return Err(CompileError::TooComplex("too long: it has too many operators"));
    }
    Ok(())
}

const fn is_end_of_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b')' | b']' | b'}' | b'"' | b'\'')
}

/// What an expression may use at a place in it.
struct Scope<'e> {
    library: Library,
    /// The variables that the expression declares.
    variables: Vec<&'e str>,
}

impl<'e> Scope<'e> {
    fn expression(&mut self, node: &'e IdedExpr, depth: usize) -> Result<Compiled, CompileError> {
        if depth > MAX_DEPTH {
            return Err(CompileError::TooComplex("nested too deeply"));
        }
        let depth = depth + 1;
        Ok(match &node.expr {
            Expr::Literal(literal) => Compiled::Literal(value(literal)?),
            Expr::Ident(name) => self.variable(name)?,
            Expr::Select(select) => {
                let operand = Box::new(self.expression(&select.operand, depth)?);
                let field = Arc::from(select.field.as_str());
                if select.test { Compiled::Has(operand, field) } else { Compiled::Select(operand, field) }
            }
            Expr::Call(call) => self.call(call, depth)?,
            Expr::List(list) if list.optional_indices.is_empty() => {
                Compiled::List(self.expressions(&list.elements, depth)?)
            }
            Expr::Map(map) => {
                let entries = map.entries.iter().map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) if !entry.optional => {
                        Ok((self.expression(&entry.key, depth)?, self.expression(&entry.value, depth)?))
                    }
                    EntryExpr::MapEntry(_) | EntryExpr::StructField(_) => Err(unsupported("an optional entry")),
                });
                Compiled::Map(entries.collect::<Result<_, _>>()?)
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth)?,
            Expr::List(_) => return Err(unsupported("an optional element")),
            Expr::Struct(_) => return Err(unsupported("a message")),
            Expr::Unspecified => return Err(CompileError::Syntax("it is empty".to_owned())),
        })
    }

    fn boxed(&mut self, node: &'e IdedExpr, depth: usize) -> Result<Box<Compiled>, CompileError> {
        self.expression(node, depth).map(Box::new)
    }

    fn expressions(&mut self, nodes: &'e [IdedExpr], depth: usize) -> Result<Vec<Compiled>, CompileError> {
        nodes.iter().map(|node| self.expression(node, depth)).collect()
    }

    fn variable(&self, name: &str) -> Result<Compiled, CompileError> {
        let facts: &[&str] = match self.library {
            Library::Selector => &["device"],
            Library::Kubelet => &kubelet::VARIABLES,
        };
        if self.variables.contains(&name) {
            Ok(Compiled::Variable(Arc::from(name)))
        } else if facts.contains(&name) {
            Ok(Compiled::Fact(Arc::from(name)))
        } else {
            Err(CompileError::Syntax(format!("{name} is no variable; it may use {}", facts.join(", "))))
        }
    }

    fn call(&mut self, call: &'e ast::CallExpr, depth: usize) -> Result<Compiled, CompileError> {
        let name = call.func_name.as_str();
        if let Some(target) = &call.target
            && name == "bind"
            && matches!(&target.expr, Expr::Ident(it) if it == "cel")
        {
            return self.bind(&call.args, depth);
        }
        if let (None, [one]) = (&call.target, &call.args[..]) {
            match name {
                operators::LOGICAL_NOT => return Ok(Compiled::Not(self.boxed(one, depth)?)),
                operators::NOT_STRICTLY_FALSE => return Ok(Compiled::NotStrictlyFalse(self.boxed(one, depth)?)),
                operators::NEGATE => return Ok(Compiled::Negate(self.boxed(one, depth)?)),
                _ => {}
            }
        }
        if let (None, [left, right]) = (&call.target, &call.args[..]) {
            let binary = binary(name);
            if binary.is_some() || matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR | operators::INDEX) {
                let (left, right) = (self.boxed(left, depth)?, self.boxed(right, depth)?);
                return Ok(match (name, binary) {
                    (_, Some(binary)) => Compiled::Binary(binary, left, right),
                    (operators::LOGICAL_AND, None) => Compiled::And(left, right),
                    (operators::LOGICAL_OR, None) => Compiled::Or(left, right),
                    (_, None) => Compiled::Index(left, right),
                });
            }
        }
        if let (None, operators::CONDITIONAL, [condition, yes, no]) = (&call.target, name, &call.args[..]) {
            let parts = [self.expression(condition, depth)?, self.expression(yes, depth)?, self.expression(no, depth)?];
            return Ok(Compiled::Conditional(Box::new(parts)));
        }
        let arguments = call.args.len();
        let function = Function::new(name, call.target.is_some(), arguments);
        let function = function.filter(|function| function.is_in(self.library)).ok_or_else(|| {
            let method = if call.target.is_some() { "method" } else { "function" };
            unsupported(&format!("the {method} {name} with {}", nodeless_model::plural::counted(arguments, "argument")))
        })?;
        let target = call.target.as_ref().map(|target| self.boxed(target, depth)).transpose()?;
        Ok(Compiled::Call(function, target, self.expressions(&call.args, depth)?))
    }

    fn bind(&mut self, arguments: &'e [IdedExpr], depth: usize) -> Result<Compiled, CompileError> {
        let [IdedExpr { expr: Expr::Ident(name), .. }, value, body] = arguments else {
            return Err(CompileError::Syntax("cel.bind takes a name, a value and an expression".to_owned()));
        };
        let value = self.boxed(value, depth)?;
        self.variables.push(name);
        let body = self.boxed(body, depth);
        self.variables.pop();
        Ok(Compiled::Bind(Arc::from(name.as_str()), value, body?))
    }

    fn comprehension(&mut self, it: &'e ast::ComprehensionExpr, depth: usize) -> Result<Compiled, CompileError> {
        if it.iter_var2.is_some() {
            return Err(unsupported("a macro with two variables"));
        }
        let range = self.expression(&it.iter_range, depth)?;
        let start = self.expression(&it.accu_init, depth)?;
        self.variables.extend([it.iter_var.as_str(), it.accu_var.as_str()]);
        let parts = self.loop_parts(it, depth);
        self.variables.truncate(self.variables.len().saturating_sub(2));
        let [condition, step, end] = parts?;
        let (variable, result) = (Arc::from(it.iter_var.as_str()), Arc::from(it.accu_var.as_str()));
        Ok(Compiled::Comprehension(Box::new(Comprehension { range, variable, result, start, condition, step, end })))
    }

    fn loop_parts(&mut self, it: &'e ast::ComprehensionExpr, depth: usize) -> Result<[Compiled; 3], CompileError> {
        Ok([
            self.expression(&it.loop_cond, depth)?,
            self.expression(&it.loop_step, depth)?,
            self.expression(&it.result, depth)?,
        ])
    }
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        operators::EQUALS => Binary::Equals,
        operators::NOT_EQUALS => Binary::Differs,
        operators::LESS => Binary::Less,
        operators::LESS_EQUALS => Binary::LessOrEqual,
        operators::GREATER => Binary::Greater,
        operators::GREATER_EQUALS => Binary::GreaterOrEqual,
        operators::IN => Binary::In,
        operators::ADD => Binary::Add,
        operators::SUBSTRACT => Binary::Subtract,
        operators::MULTIPLY => Binary::Multiply,
        operators::DIVIDE => Binary::Divide,
        operators::MODULO => Binary::Remainder,
        _ => return None,
    })
}

fn value(literal: &LiteralValue) -> Result<Value, CompileError> {
    Ok(match literal {
        LiteralValue::Boolean(it) => Value::Bool(*it.inner()),
        LiteralValue::Double(it) => Value::Double(*it.inner()),
        LiteralValue::Int(it) => Value::Int(*it.inner()),
        LiteralValue::UInt(it) => Value::Unsigned(*it.inner()),
        LiteralValue::String(it) => Value::string(it.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::Bytes(_) => return Err(unsupported("a literal of bytes")),
    })
}

fn unsupported(what: &str) -> CompileError {
    CompileError::Unsupported(what.to_owned())
}
