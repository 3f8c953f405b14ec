"""The format `rocketq`: what Spark asks of a data source, answered."""

from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from rocketq.spark.errors import in_one_sentence
from rocketq.spark.options import InvalidOptions, SourceOptions, sink_options, source_options
from rocketq.spark.schema import ALL_COLUMNS, ddl


class RocketqDataSource(DataSource):
    """Topics of RocketMQ. Options: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "rocketq"

    @in_one_sentence
    def schema(self) -> str:
        return ddl(source_options(self.options, streaming=None).columns)

    @in_one_sentence
    def reader(self, schema: StructType) -> DataSourceReader:
        from rocketq.spark.read.batch import BatchReader, PruningReader

        options = self._source(schema, streaming=False)
        if options.archive is not None:
            from rocketq.spark.archive.reader import ArchiveReader

            return ArchiveReader(options)
        if options.stores:
            from rocketq.spark.files.reader import FilesReader, PruningFilesReader

            return PruningFilesReader(options) if options.push_filters else FilesReader(options)
        return PruningReader(options) if options.push_filters else BatchReader(options)

    @in_one_sentence
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from rocketq.spark.read.stream import StreamReader

        return StreamReader(self._source(schema, streaming=True))

    @in_one_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from rocketq.spark.write.sink import BatchWriter

        if overwrite:
            raise InvalidOptions("rocketq sink: a topic cannot be overwritten; use mode('append')")
        return BatchWriter(sink_options(self.options), schema)

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from rocketq.spark.write.sink import StreamWriter

        return StreamWriter(sink_options(self.options), schema)

    def _source(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        """The options, with the columns of the schema: a user may have given a smaller one."""
        options = source_options(self.options, streaming=streaming)
        names = schema.fieldNames()
        wrong: list[Any] = [
            field
            for field in schema.fields
            if ALL_COLUMNS.get(field.name) != field.dataType.simpleString()
        ]
        if wrong:
            raise InvalidOptions(
                f"rocketq source: column {wrong[0].name!r} of type "
                f"{wrong[0].dataType.simpleString()} is not of the topic's schema: "
                f"{ddl(list(ALL_COLUMNS))}"
            )
        return replace(options, columns=tuple(names))
