//! Compiles expressions: checks what is supported, once, before devices are selected.

use super::functions::Function;
use super::value::Value;
use super::{CompileError, MAX_LENGTH};
use cel::common::ast::{self, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use std::rc::Rc;

/// How deeply expressions may be nested, which bounds the stack that parsing and evaluation use.
const MAX_DEPTH: usize = 64;
/// How deeply brackets may be nested; the parser uses several frames of the stack for each.
const MAX_BRACKETS: usize = 24;
/// How many characters of operators an expression may have: chains of operators are nested expressions.
const MAX_OPERATORS: usize = 400;

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Literal(Value),
    Device,
    Variable(Rc<str>),
    Select(Box<Expression>, Rc<str>),
    Has(Box<Expression>, Rc<str>),
    Index(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    NotStrictlyFalse(Box<Expression>),
    Negate(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Conditional(Box<[Expression; 3]>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    /// A function, its target if it is a method, and its arguments.
    Call(Function, Option<Box<Expression>>, Vec<Expression>),
    List(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
    /// `cel.bind`.
    Bind(Rc<str>, Box<Expression>, Box<Expression>),
    Comprehension(Box<Comprehension>),
}

/// `exists`, `all` and their like.
#[derive(Clone, Debug)]
pub(super) struct Comprehension {
    pub(super) range: Expression,
    pub(super) variable: Rc<str>,
    pub(super) result: Rc<str>,
    pub(super) start: Expression,
    pub(super) condition: Expression,
    pub(super) step: Expression,
    pub(super) end: Expression,
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

pub(super) fn compile(source: &str) -> Result<Expression, CompileError> {
    if source.len() > MAX_LENGTH {
        return Err(CompileError::TooComplex("longer than 10 KiB"));
    }
    check_nesting(source)?;
    let parsed = cel::parser::Parser::default().parse(source).map_err(|errors| {
        let messages: Vec<&str> = errors.errors.iter().map(|error| error.msg.as_str()).collect();
        CompileError::Syntax(messages.join("; "))
    })?;
    Scope(vec!["device"]).expression(&parsed, 0)
}

/// Counts brackets and operators outside of strings, because the parser has no limit for the depth of its recursion.
fn check_nesting(source: &str) -> Result<(), CompileError> {
    let (mut depth, mut operators, mut quote, mut escaped) = (0_usize, 0_usize, None, false);
    let mut last = b' ';
    for byte in source.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        if let Some(end) = quote {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                _ if byte == end => quote = None,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' | b'\'' => quote = Some(byte),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'?' | b'.' | b'&' | b'|' => operators += 1,
            _ => {}
        }
        // The parser reads an even number of them as one.
        if byte == last && matches!(byte, b'!' | b'-') {
            return Err(unsupported("two ! or - in a row"));
        }
        last = byte;
        if depth > MAX_BRACKETS {
            return Err(CompileError::TooComplex("nested too deeply"));
        }
    }
    if operators > MAX_OPERATORS {
        return Err(CompileError::TooComplex("too long: it has too many operators"));
    }
    Ok(())
}

/// The variables that are declared.
struct Scope<'e>(Vec<&'e str>);

impl<'e> Scope<'e> {
    fn expression(&mut self, node: &'e IdedExpr, depth: usize) -> Result<Expression, CompileError> {
        if depth > MAX_DEPTH {
            return Err(CompileError::TooComplex("nested too deeply"));
        }
        let depth = depth + 1;
        Ok(match &node.expr {
            Expr::Literal(literal) => Expression::Literal(value(literal)?),
            Expr::Ident(name) => self.variable(name)?,
            Expr::Select(select) => {
                let operand = Box::new(self.expression(&select.operand, depth)?);
                let field = Rc::from(select.field.as_str());
                if select.test { Expression::Has(operand, field) } else { Expression::Select(operand, field) }
            }
            Expr::Call(call) => self.call(call, depth)?,
            Expr::List(list) if list.optional_indices.is_empty() => {
                Expression::List(self.expressions(&list.elements, depth)?)
            }
            Expr::Map(map) => {
                let entries = map.entries.iter().map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) if !entry.optional => {
                        Ok((self.expression(&entry.key, depth)?, self.expression(&entry.value, depth)?))
                    }
                    EntryExpr::MapEntry(_) | EntryExpr::StructField(_) => Err(unsupported("an optional entry")),
                });
                Expression::Map(entries.collect::<Result<_, _>>()?)
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth)?,
            Expr::List(_) => return Err(unsupported("an optional element")),
            Expr::Struct(_) => return Err(unsupported("a message")),
            Expr::Unspecified => return Err(CompileError::Syntax("it is empty".to_owned())),
        })
    }

    fn boxed(&mut self, node: &'e IdedExpr, depth: usize) -> Result<Box<Expression>, CompileError> {
        self.expression(node, depth).map(Box::new)
    }

    fn expressions(&mut self, nodes: &'e [IdedExpr], depth: usize) -> Result<Vec<Expression>, CompileError> {
        nodes.iter().map(|node| self.expression(node, depth)).collect()
    }

    fn variable(&self, name: &str) -> Result<Expression, CompileError> {
        match self.0.iter().rposition(|known| *known == name) {
            Some(0) => Ok(Expression::Device),
            Some(_) => Ok(Expression::Variable(Rc::from(name))),
            None => Err(CompileError::Syntax(format!("{name} is not declared; the only variable is device"))),
        }
    }

    fn call(&mut self, call: &'e ast::CallExpr, depth: usize) -> Result<Expression, CompileError> {
        let name = call.func_name.as_str();
        if let Some(target) = &call.target
            && name == "bind"
            && matches!(&target.expr, Expr::Ident(it) if it == "cel")
        {
            return self.bind(&call.args, depth);
        }
        if let (None, [one]) = (&call.target, &call.args[..]) {
            match name {
                operators::LOGICAL_NOT => return Ok(Expression::Not(self.boxed(one, depth)?)),
                operators::NOT_STRICTLY_FALSE => return Ok(Expression::NotStrictlyFalse(self.boxed(one, depth)?)),
                operators::NEGATE => return Ok(Expression::Negate(self.boxed(one, depth)?)),
                _ => {}
            }
        }
        if let (None, [left, right]) = (&call.target, &call.args[..]) {
            let binary = binary(name);
            if binary.is_some() || matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR | operators::INDEX) {
                let (left, right) = (self.boxed(left, depth)?, self.boxed(right, depth)?);
                return Ok(match (name, binary) {
                    (_, Some(binary)) => Expression::Binary(binary, left, right),
                    (operators::LOGICAL_AND, None) => Expression::And(left, right),
                    (operators::LOGICAL_OR, None) => Expression::Or(left, right),
                    (_, None) => Expression::Index(left, right),
                });
            }
        }
        if let (None, operators::CONDITIONAL, [condition, yes, no]) = (&call.target, name, &call.args[..]) {
            let parts = [self.expression(condition, depth)?, self.expression(yes, depth)?, self.expression(no, depth)?];
            return Ok(Expression::Conditional(Box::new(parts)));
        }
        let arguments = call.args.len();
        let function = Function::new(name, call.target.is_some(), arguments).ok_or_else(|| {
            let method = if call.target.is_some() { "method" } else { "function" };
            unsupported(&format!("the {method} {name} with {}", nodeless_model::plural::counted(arguments, "argument")))
        })?;
        let target = call.target.as_ref().map(|target| self.boxed(target, depth)).transpose()?;
        Ok(Expression::Call(function, target, self.expressions(&call.args, depth)?))
    }

    fn bind(&mut self, arguments: &'e [IdedExpr], depth: usize) -> Result<Expression, CompileError> {
        let [IdedExpr { expr: Expr::Ident(name), .. }, value, body] = arguments else {
            return Err(CompileError::Syntax("cel.bind takes a name, a value and an expression".to_owned()));
        };
        let value = self.boxed(value, depth)?;
        self.0.push(name);
        let body = self.boxed(body, depth);
        self.0.pop();
        Ok(Expression::Bind(Rc::from(name.as_str()), value, body?))
    }

    fn comprehension(&mut self, it: &'e ast::ComprehensionExpr, depth: usize) -> Result<Expression, CompileError> {
        if it.iter_var2.is_some() {
            return Err(unsupported("a macro with two variables"));
        }
        let range = self.expression(&it.iter_range, depth)?;
        let start = self.expression(&it.accu_init, depth)?;
        self.0.extend([it.iter_var.as_str(), it.accu_var.as_str()]);
        let parts = self.loop_parts(it, depth);
        self.0.truncate(self.0.len().saturating_sub(2));
        let [condition, step, end] = parts?;
        let (variable, result) = (Rc::from(it.iter_var.as_str()), Rc::from(it.accu_var.as_str()));
        Ok(Expression::Comprehension(Box::new(Comprehension { range, variable, result, start, condition, step, end })))
    }

    fn loop_parts(&mut self, it: &'e ast::ComprehensionExpr, depth: usize) -> Result<[Expression; 3], CompileError> {
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
