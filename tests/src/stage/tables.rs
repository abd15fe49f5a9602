//! The claims table and the queues of a stage.

use super::{Stage, TABLE, config};
use aws_config::SdkConfig;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// The URLs of the queues.
pub(super) struct Queues {
    pub(super) plan: String,
    pub(super) claims: String,
    pub(super) interruption: String,
    pub(super) catalog: String,
}

impl Queues {
    /// The queues of a cluster, as the Terraform module names them.
    pub(super) async fn create(sqs: &aws_sdk_sqs::Client, cluster: &str) -> Self {
        let create = async |suffix: &str| create_queue(sqs, &format!("nodeless-{cluster}-{suffix}")).await;
        Self {
            plan: create("plan.fifo").await,
            claims: create("claims").await,
            interruption: create("interruption").await,
            catalog: create("catalog.fifo").await,
        }
    }

    /// The ARN of the queue of each function.
    pub(super) fn arns(&self) -> Value {
        json!({
            "planner": arn(&self.plan), "lifecycle": arn(&self.claims), "interruption": arn(&self.interruption),
            "catalog": arn(&self.catalog),
        })
    }
}

/// The ARN of a queue with this URL.
fn arn(url: &str) -> String {
    format!("arn:aws:sqs:us-east-1:111122223333:{}", url.rsplit('/').next().unwrap_or_default())
}

impl Stage {
    /// Creates a topic. Returns its ARN, and the URL of a queue that gets its messages.
    ///
    /// # Panics
    /// When moto refuses it.
    pub async fn topic(&self, name: &str) -> (String, String) {
        let (sns, sqs) = (aws_sdk_sns::Client::new(&self.config), aws_sdk_sqs::Client::new(&self.config));
        let topic = sns.create_topic().name(name).send().await.expect("moto makes a topic");
        let topic = topic.topic_arn.expect("a topic has an ARN");
        let queue = create_queue(&sqs, &format!("{name}-subscriber")).await;
        let read = sqs.get_queue_attributes().queue_url(&queue).attribute_names(QueueAttributeName::QueueArn);
        let attributes = read.send().await.expect("moto describes a queue").attributes.unwrap_or_default();
        let subscribe =
            sns.subscribe().topic_arn(&topic).protocol("sqs").endpoint(&attributes[&QueueAttributeName::QueueArn]);
        subscribe.send().await.expect("moto subscribes a queue");
        (topic, queue)
    }

    /// Takes the messages that a topic has sent to this queue.
    ///
    /// # Panics
    /// When moto gives none.
    pub async fn published(&self, queue: &str) -> Vec<Value> {
        let taken = self.take(queue).await;
        let body = |record: &Value| serde_json::from_str(record["body"].as_str().unwrap_or_default());
        let bodies = taken["Records"].as_array().into_iter().flatten().map(body);
        bodies.collect::<Result<_, _>>().expect("a topic sends JSON")
    }

    /// Writes an item of the claims table of this cluster: a version of 1, a record, and more numbers and texts.
    ///
    /// # Panics
    /// When the table cannot be written.
    pub async fn put_record(&self, sort: &str, record: Vec<u8>, more: &[(&str, AttributeValue)]) {
        let table = aws_sdk_dynamodb::Client::new(&config(&self.table().url).await);
        let mut put = table
            .put_item()
            .table_name(TABLE)
            .item("pk", AttributeValue::S(self.cluster.clone()))
            .item("sk", AttributeValue::S(sort.to_owned()))
            .item("version", AttributeValue::N("1".to_owned()))
            .item("record", AttributeValue::B(record.into()));
        for (name, value) in more {
            put = put.item(*name, value.clone());
        }
        put.send().await.expect("the table takes the item");
    }

    /// The records of this kind in the claims table of this cluster, by their sort key.
    ///
    /// # Panics
    /// When the table cannot be read.
    pub async fn records(&self, prefix: &str) -> BTreeMap<String, Value> {
        let table = config(&self.table().url).await;
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let query = aws_sdk_dynamodb::Client::new(&table)
            .query()
            .table_name(TABLE)
            .consistent_read(true)
            .key_condition_expression("pk = :cluster AND begins_with(sk, :prefix)")
            .expression_attribute_values(":cluster", text(&self.cluster))
            .expression_attribute_values(":prefix", text(prefix));
        let items = query.send().await.expect("moto answers queries").items.unwrap_or_default();
        let of = |item: &HashMap<String, AttributeValue>, name: &str| Some(item.get(name)?.as_s().ok()?.clone());
        let record = |item| Some((of(&item, "sk")?, serde_json::from_str(&of(&item, "record")?).ok()?));
        items.into_iter().filter_map(record).collect()
    }

    /// Takes all messages that are due from the plan queue, as the event that Lambda would make of them.
    pub async fn plan_messages(&self) -> Value {
        self.take(&self.queues.plan).await
    }

    /// Takes all messages that are due from the claims queue, as the event that Lambda would make of them.
    pub async fn claims_messages(&self) -> Value {
        self.take(&self.queues.claims).await
    }

    /// Takes all messages that are due from the catalog queue, as the event that Lambda would make of them.
    pub async fn catalog_messages(&self) -> Value {
        self.take(&self.queues.catalog).await
    }

    async fn take(&self, queue: &str) -> Value {
        let mut records = Vec::new();
        let sqs = aws_sdk_sqs::Client::new(&self.config);
        loop {
            let request = sqs.receive_message().queue_url(queue).max_number_of_messages(10);
            let received = request.send().await.expect("moto gives messages");
            if received.messages().is_empty() {
                return json!({ "Records": records });
            }
            for message in received.messages() {
                records.push(json!({
                    "messageId": message.message_id(), "body": message.body(), "receiptHandle": message.receipt_handle(),
                    "attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs", "eventSourceARN": arn(queue),
                }));
                let handle = message.receipt_handle().expect("a message has a handle");
                let delete = sqs.delete_message().queue_url(queue).receipt_handle(handle);
                delete.send().await.expect("moto deletes a message");
            }
        }
    }
}

/// A queue of this name; a FIFO queue where the name reports it.
async fn create_queue(sqs: &aws_sdk_sqs::Client, name: &str) -> String {
    let mut request = sqs.create_queue().queue_name(name);
    if name.ends_with(".fifo") {
        request = request.attributes(QueueAttributeName::FifoQueue, "true");
    }
    request.send().await.expect("moto makes a queue").queue_url.expect("a queue has a URL")
}

/// The table as the Terraform module makes it.
///
/// # Panics
/// When it cannot be created.
pub async fn create_table(config: &SdkConfig) {
    let key = |name: &str, kind| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().expect("a key is whole")
    };
    let attribute = |name: &str| {
        let text = AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
        text.build().expect("an attribute is whole")
    };
    let index = GlobalSecondaryIndex::builder()
        .index_name("instance")
        .key_schema(key("instanceId", KeyType::Hash))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
        .expect("an index is whole");
    aws_sdk_dynamodb::Client::new(config)
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("pk"))
        .attribute_definitions(attribute("sk"))
        .attribute_definitions(attribute("instanceId"))
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .global_secondary_indexes(index)
        .send()
        .await
        .expect("the table is created");
}
