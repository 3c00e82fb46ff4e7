//! A user of rskafka, with its defaults. See tests/kafka/programs.py for the scenarios.

use std::collections::BTreeMap;
use std::env::args;
use std::time::Duration;

use chrono::Utc;
use rskafka::client::error::Error;
use rskafka::client::partition::{Compression, OffsetAt, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use serde_json::{json, Value};
use tokio::time::timeout;

const RECORDS: usize = 200;
const PARTITIONS: i32 = 3;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = args().skip(1).collect();
    let [bootstrap, scenario, topic, rest @ ..] = arguments.as_slice() else {
        panic!("usage: clients BOOTSTRAP SCENARIO TOPIC …")
    };
    let client = ClientBuilder::new(vec![bootstrap.clone()]).build().await.unwrap();
    let work = async {
        match scenario.as_str() {
            "admin" => admin(&client, topic).await,
            "produce" => produce(&client, topic, &rest[0]).await,
            "fetch" => fetch(&client, topic).await,
            "mistake" => mistake(&client, topic, &rest[0]).await,
            other => panic!("unknown scenario {other}"),
        }
    };
    println!("{}", timeout(Duration::from_secs(50), work).await.unwrap().unwrap());
}

async fn admin(client: &Client, topic: &str) -> Result<Value, Error> {
    let controller = client.controller_client()?;
    controller.create_topic(topic, PARTITIONS, 1, 5_000).await?;
    let topics = client.list_topics().await?;
    let partitions = topics.iter().find(|each| each.name == topic).map(|each| each.partitions.len());
    controller.delete_topic(topic, 5_000).await?;
    let left = client.list_topics().await?.iter().any(|each| each.name == topic);
    Ok(json!({ "partitions": partitions, "left": left }))
}

async fn produce(client: &Client, topic: &str, codec: &str) -> Result<Value, Error> {
    let compression = match codec {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    };
    let mut places = vec![json!(null); RECORDS];
    for partition in 0..PARTITIONS {
        let numbers: Vec<usize> = (partition as usize..RECORDS).step_by(PARTITIONS as usize).collect();
        let records = numbers
            .iter()
            .map(|number| Record {
                key: Some(format!("key {number}").into_bytes()),
                value: Some(format!("value {number} ").repeat(20).into_bytes()),
                headers: BTreeMap::new(),
                timestamp: Utc::now(),
            })
            .collect();
        let writer = client.partition_client(topic, partition, UnknownTopicHandling::Retry).await?;
        let offsets = writer.produce(records, compression).await?;
        for (number, offset) in numbers.iter().zip(offsets.iter()) {
            places[*number] = json!([partition, offset]);
        }
    }
    Ok(json!({ "places": places }))
}

async fn fetch(client: &Client, topic: &str) -> Result<Value, Error> {
    let mut found = Vec::new();
    for partition in 0..PARTITIONS {
        let reader = client.partition_client(topic, partition, UnknownTopicHandling::Retry).await?;
        let mut offset = reader.get_offset(OffsetAt::Earliest).await?;
        let end = reader.get_offset(OffsetAt::Latest).await?;
        while offset < end {
            let (records, _) = reader.fetch_records(offset, 1..1_000_000, 1_000).await?;
            let begin = offset; // a batch may begin before the offset
            for each in records.into_iter().filter(|each| each.offset >= begin) {
                offset = each.offset + 1;
                let (key, value) = (each.record.key.unwrap(), each.record.value.unwrap());
                let (key, value) = (String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
                found.push(json!([partition, each.offset, key, value]));
            }
        }
    }
    Ok(json!({ "records": found }))
}

async fn mistake(client: &Client, topic: &str, kind: &str) -> Result<Value, Error> {
    let result = match kind {
        "unknown topic" => client.partition_client(topic, 0, UnknownTopicHandling::Error).await.map(drop),
        _ => {
            let writer = client.partition_client(topic, 0, UnknownTopicHandling::Retry).await?;
            let record =
                Record { key: None, value: Some(vec![0; 5000]), headers: BTreeMap::new(), timestamp: Utc::now() };
            writer.produce(vec![record], Compression::NoCompression).await.map(drop)
        }
    };
    Ok(match result {
        Err(Error::ServerError { protocol_error, .. }) => json!({ "text": protocol_error.to_string() }),
        other => json!({ "text": format!("{other:?}") }),
    })
}
